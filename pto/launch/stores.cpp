// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/stores.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "pto/launch/block.hpp"

namespace pto {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> launches{0};
  return launches.fetch_add(1) + 1;
}

}  // namespace

Stores::Stores(int32_t positions)
    : serial_(next_serial()), waited_(static_cast<size_t>(positions), 0) {}

uintptr_t Stores::add(uintptr_t start, uintptr_t end, int32_t block, int32_t position,
                      int32_t* other) {
  const std::lock_guard lock(mutex_);
  const uint64_t waited = waited_[static_cast<size_t>(position)];
  auto at = all_.upper_bound(start);
  if (at != all_.begin() && std::prev(at)->second.end > start) --at;
  for (auto one = at; one != all_.end() && one->first < end; ++one) {
    if (one->second.block == block || waited > one->second.time) continue;
    *other = one->second.block;
    return std::max(one->first, start);
  }
  while (at != all_.end() && at->first < end) {
    const auto [from, old] = *at;
    at = all_.erase(at);
    if (from < start) all_.emplace(from, Store{start, old.block, old.time});
    if (old.end > end) at = all_.emplace(end, old).first;
  }
  const uintptr_t stored = end;
  const auto continues = [&](const Store& one) { return one.block == block && one.time == time_; };
  if (at != all_.end() && at->first == end && continues(at->second)) {
    end = at->second.end;
    at = all_.erase(at);
  }
  if (at != all_.begin() && std::prev(at)->second.end == start && continues(std::prev(at)->second))
    std::prev(at)->second.end = end;
  else
    all_.emplace(start, Store{end, block, time_});
  return stored;
}

void Stores::note_wait(int32_t position) {
  const std::lock_guard lock(mutex_);
  waited_[static_cast<size_t>(position)] = ++time_;
}

Stores* stores_of_launch() {
  Launch* const launch = t_block.launch;
  if (launch == nullptr) return nullptr;
  Stores* stores = launch->stores.load(std::memory_order_acquire);
  if (stores != nullptr) return stores;
  auto made = std::make_unique<Stores>(launch->positions());
  if (launch->stores.compare_exchange_strong(stores, made.get(), std::memory_order_acq_rel))
    return made.release();
  return stores;
}

void note_wait() {
  if (t_block.launch == nullptr) return;
  Stores* const stores = t_block.launch->stores.load(std::memory_order_acquire);
  if (stores != nullptr) stores->note_wait(t_block.position);
}

}  // namespace pto
