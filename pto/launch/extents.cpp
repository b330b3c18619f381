// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/extents.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "pto/abi/host.h"

namespace pto {
namespace {

// Versions are unique among all objects, so that a thread's last answer needs no owner.
std::atomic<uint64_t> g_versions{0};
uint64_t next_version() { return g_versions.fetch_add(1) + 1; }

bool starts_after(uintptr_t address, uintptr_t base) { return address < base; }

}  // namespace

Extents::Extents() : version_(next_version()) {}

void Extents::add(const void* base, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(base);
  if (address == 0 || bytes == 0 || address + bytes < address) return;
  const std::lock_guard lock(mutex_);
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](uintptr_t one, const Range& range) { return starts_after(one, range.base); });
  const auto at = ranges_.insert(after, {address, address + bytes, 0});
  update_reach(static_cast<size_t>(at - ranges_.begin()));
}

bool Extents::remove(const void* base) {
  const auto address = reinterpret_cast<uintptr_t>(base);
  const std::lock_guard lock(mutex_);
  auto at = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](uintptr_t one, const Range& range) { return starts_after(one, range.base); });
  if (at == ranges_.begin() || (--at)->base != address) return false;
  const auto index = static_cast<size_t>(at - ranges_.begin());
  ranges_.erase(at);
  update_reach(index);
  return true;
}

void Extents::update_reach(size_t from) {
  uintptr_t reach = from == 0 ? 0 : ranges_[from - 1].reach;
  for (size_t i = from; i < ranges_.size(); ++i) {
    reach = std::max(reach, ranges_[i].end);
    ranges_[i].reach = reach;
  }
  version_.store(next_version(), std::memory_order_release);
}

// Walks from the last range that starts at or before the address towards the first, as long as an
// earlier one can reach it. On the way it narrows [low, high) to where the walk would go the same.
Extents::Answer Extents::look_up(uintptr_t address) const {
  const std::shared_lock lock(mutex_);
  Answer answer{version_.load(std::memory_order_relaxed), 0, UINTPTR_MAX, 0};
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](uintptr_t one, const Range& range) { return starts_after(one, range.base); });
  if (after != ranges_.end()) answer.high = after->base;
  if (after != ranges_.begin()) answer.low = (after - 1)->base;
  uintptr_t smallest = UINTPTR_MAX;
  for (auto range = after; range != ranges_.begin();) {
    --range;
    if (range->reach <= address) {
      answer.low = std::max(answer.low, range->reach);
      break;
    }
    if (range->end <= address) {
      answer.low = std::max(answer.low, range->end);
      continue;
    }
    answer.high = std::min(answer.high, range->end);
    if (range->end - range->base >= smallest) continue;
    smallest = range->end - range->base;
    answer.end = range->end;
  }
  return answer;
}

int64_t Extents::bytes_from(const void* pointer) const {
  static thread_local Answer last;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (last.version != version_.load(std::memory_order_acquire) || address < last.low ||
      address >= last.high) {
    last = look_up(address);
  }
  return last.end == 0 ? -1 : static_cast<int64_t>(last.end - address);
}

// The extents are never destroyed: static objects of the program may still unregister.
Extents& process_extents() {
  static auto* extents = new Extents;
  return *extents;
}

namespace {
[[maybe_unused]] const int kExtentsForkHandler =
    pthread_atfork([] { process_extents().lock(); }, [] { process_extents().unlock(); },
                   [] { process_extents().renew_lock(); });
}  // namespace

}  // namespace pto

void pto_register_range(const void* base, size_t bytes) {
  try {
    pto::process_extents().add(base, bytes);
  } catch (const std::bad_alloc&) {  // the range stays unknown, which is always legal
  }
}

void pto_unregister_range(const void* base) { pto::process_extents().remove(base); }
