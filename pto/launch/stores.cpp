// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/stores.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

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

uintptr_t Stores::add(uintptr_t start, uintptr_t end, int32_t block, int32_t position, bool adds,
                      int32_t* other) {
  const std::lock_guard lock(mutex_);
  const uint64_t waited = waited_[static_cast<size_t>(position)];
  const auto follows = [&](const Store& one) { return one.block == block || waited > one.time; };
  auto at = all_.upper_bound(start);
  if (at != all_.begin() && std::prev(at)->second.end > start) --at;
  for (auto one = at; one != all_.end() && one->first < end; ++one) {
    if (follows(one->second) || (adds && one->second.adds)) continue;
    *other = one->second.block;
    return std::max(one->first, start);
  }
  std::vector<std::pair<uintptr_t, uintptr_t>> shared;  // bytes to which other blocks add, too
  while (at != all_.end() && at->first < end) {
    const auto [from, old] = *at;
    at = all_.erase(at);
    if (from < start) all_.emplace(from, Store{start, old.block, old.time, old.adds});
    if (old.end > end) at = all_.emplace(end, old).first;
    if (!follows(old)) shared.emplace_back(std::max(from, start), std::min(old.end, end));
  }
  uintptr_t next = start;
  for (const auto& [from, to] : shared) {
    if (next < from) put(next, {from, block, time_, adds});
    put(from, {to, kSeveral, time_, adds});
    next = to;
  }
  if (next < end) put(next, {end, block, time_, adds});
  return end;
}

// Keeps a store where none is, with its neighbours of the same kind.
void Stores::put(uintptr_t start, Store store) {
  const auto is_same = [&](const Store& one) {
    return one.block == store.block && one.time == store.time && one.adds == store.adds;
  };
  auto next = all_.lower_bound(start);
  if (next != all_.end() && next->first == store.end && is_same(next->second)) {
    store.end = next->second.end;
    next = all_.erase(next);
  }
  if (next != all_.begin() && std::prev(next)->second.end == start &&
      is_same(std::prev(next)->second))
    std::prev(next)->second.end = store.end;
  else
    all_.emplace(start, store);
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
