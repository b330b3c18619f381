// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/device_blocks.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>

namespace pto {
namespace {

constexpr int kLogChains = 14;
constexpr int kLeastLevel = 8;  // smaller blocks share their windows

int level_of(size_t bytes) {
  return std::max(kLeastLevel, static_cast<int>(std::bit_width(std::max<size_t>(bytes, 1) - 1)));
}

}  // namespace

DeviceBlocks::DeviceBlocks() : chains_(size_t{1} << kLogChains) {}

DeviceBlock*& DeviceBlocks::chain(int level, uintptr_t window) const {
  const uint64_t key = (window << 6 | static_cast<uint64_t>(level)) * 0x9e3779b97f4a7c15;
  return chains_[key >> (64 - kLogChains)];
}

void DeviceBlocks::add(DeviceBlock* block) {
  const int level = level_of(block->bytes);
  const std::lock_guard lock(mutex_);
  DeviceBlock*& first = chain(level, block->base >> level);
  block->next = first;
  first = block;
  const uint64_t levels = levels_.load(std::memory_order_relaxed), bit = uint64_t{1} << level;
  if ((levels & bit) == 0) levels_.store(levels | bit, std::memory_order_release);
}

void DeviceBlocks::remove(DeviceBlock* block) {
  const int level = level_of(block->bytes);
  const std::lock_guard lock(mutex_);
  DeviceBlock** at = &chain(level, block->base >> level);
  while (*at != nullptr && *at != block) at = &(*at)->next;
  if (*at != nullptr) *at = block->next;
}

DeviceBlock* DeviceBlocks::find(uintptr_t address) const {
  uint64_t levels = levels_.load(std::memory_order_relaxed);
  for (; levels != 0; levels &= levels - 1) {
    const int level = std::countr_zero(levels);
    const uintptr_t window = address >> level;
    for (const uintptr_t one : {window, window - 1}) {
      for (DeviceBlock* block = chain(level, one); block != nullptr; block = block->next) {
        if (address - block->base < block->bytes) return block;  // below the base it wraps
      }
    }
  }
  return nullptr;
}

// The blocks are never destroyed, since static objects free their storages late.
DeviceBlocks& process_device_blocks() {
  static auto* const blocks = new DeviceBlocks;
  return *blocks;
}

namespace {
[[maybe_unused]] const int kBlocksForkHandler =
    pthread_atfork([] { process_device_blocks().lock(); }, [] { process_device_blocks().unlock(); },
                   [] { process_device_blocks().unlock(); });
}  // namespace

}  // namespace pto
