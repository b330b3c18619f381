// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/npu/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "pto/abi/host.h"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/launch/memory.hpp"

namespace pto::torch_npu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHeader = (sizeof(Block) + kAlignment - 1) / kAlignment * kAlignment;

// The numbers of memory_stats() for one device.
struct Counters {
  std::atomic<int64_t> bytes{0}, bytes_peak{0}, bytes_ever{0}, bytes_freed{0};
  std::atomic<int64_t> blocks{0}, blocks_peak{0}, blocks_ever{0}, blocks_freed{0};
  std::atomic<int64_t> failures{0};

  static void raise(std::atomic<int64_t>& peak, int64_t value) {
    int64_t seen = peak.load(std::memory_order_relaxed);
    while (value > seen && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  void add(int64_t count) {
    constexpr auto relaxed = std::memory_order_relaxed;
    raise(bytes_peak, bytes.fetch_add(count, relaxed) + count);
    raise(blocks_peak, blocks.fetch_add(1, relaxed) + 1);
    bytes_ever.fetch_add(count, relaxed);
    blocks_ever.fetch_add(1, relaxed);
  }
  void remove(int64_t count) {
    constexpr auto relaxed = std::memory_order_relaxed;
    bytes.fetch_sub(count, relaxed);
    blocks.fetch_sub(1, relaxed);
    bytes_freed.fetch_add(count, relaxed);
    blocks_freed.fetch_add(1, relaxed);
  }
};
std::array<Counters, kMaxDevices> counters;

Counters& counters_of(int device) { return counters[static_cast<size_t>(device)]; }

size_t page_bytes(size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void refuse_memory(int device, size_t bytes) {
  counters_of(device).failures.fetch_add(1, std::memory_order_relaxed);
  const std::string name = "npu:" + std::to_string(device);
  TORCH_CHECK_WITH(
      OutOfMemoryError, false,
      error_message(c10::str(name, ": no memory for ", bytes, " bytes; ",
                             counters_of(device).bytes.load(), " bytes are in use on this device"),
                    "its memory is the host's, and the host has no such block",
                    "use smaller tensors, or free some"));
}

void release(Block* block) {
  if (block->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  counters_of(block->device).remove(static_cast<int64_t>(block->bytes));
  process_device_blocks().remove(block);
  if (block->adopted) {
    delete block;
    return;
  }
  if (is_checked()) {
    munmap(block->data(), page_bytes(block->bytes));
    delete block;
    return;
  }
  block->~Block();
  pto_free(block);
}

void release_context(void* block) { release(static_cast<Block*>(block)); }

void release_storage(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

c10::DataPtr owned(Block* block, void* data, size_t bytes, int device) {
  block->base = reinterpret_cast<uintptr_t>(data);
  block->bytes = bytes;
  block->device = device;
  process_device_blocks().add(block);
  counters_of(device).add(static_cast<int64_t>(bytes));
  return {data, block, &release_context, npu(device)};
}

class NpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return torch_npu::allocate(current_device(), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { release_cached(); }
  // Does nothing: a stream's kernel owns the memory that it uses.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const Counters& counted = counters_of(existing_device(device));
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto fill = [](c10::CachingAllocator::StatArray& to, int64_t current, int64_t peak,
                         int64_t ever, int64_t freed) {
      c10::CachingAllocator::Stat& all = to[0];
      all.current = current, all.peak = peak, all.allocated = ever, all.freed = freed;
    };
    for (auto* bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes,
                        &stats.reserved_bytes}) {
      fill(*bytes, counted.bytes, counted.bytes_peak, counted.bytes_ever, counted.bytes_freed);
    }
    for (auto* blocks : {&stats.allocation, &stats.active, &stats.segment}) {
      fill(*blocks, counted.blocks, counted.blocks_peak, counted.blocks_ever, counted.blocks_freed);
    }
    stats.num_ooms = counted.failures;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    Counters& counted = counters_of(existing_device(device));
    for (auto* sum : {&counted.bytes_ever, &counted.bytes_freed, &counted.blocks_ever,
                      &counted.blocks_freed, &counted.failures}) {
      sum->store(0);
    }
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    Counters& counted = counters_of(existing_device(device));
    counted.bytes_peak = counted.bytes.load();
    counted.blocks_peak = counted.blocks.load();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return {page * static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)),
            page * static_cast<size_t>(sysconf(_SC_PHYS_PAGES))};
  }
};

// The live blocks of page-locked memory.
struct PinnedRanges {
  std::shared_mutex mutex;
  std::map<uintptr_t, size_t> bytes;
};
PinnedRanges& pinned_ranges() {
  static auto* const all = new PinnedRanges;
  return *all;
}

void release_pinned(void* block) {
  {
    const std::unique_lock lock(pinned_ranges().mutex);
    pinned_ranges().bytes.erase(reinterpret_cast<uintptr_t>(block));
  }
  pto_free(block);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = pto_malloc(bytes);
    TORCH_CHECK_WITH(
        OutOfMemoryError, data != nullptr,
        error_message(c10::str("no memory for ", bytes, " bytes of pinned host memory"),
                      "the host has no such block", "pin smaller tensors, or free some"));
    const std::unique_lock lock(pinned_ranges().mutex);
    pinned_ranges().bytes[reinterpret_cast<uintptr_t>(data)] = bytes;
    return {data, data, &release_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

NpuAllocator npu_allocator;
PinnedAllocator pinned;
std::mutex checked_mutex;

}  // namespace

bool is_checked() {
  static const bool checked = [] {
    const char* text = std::getenv("PTO_NPU_CHECKED");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }();
  return checked;
}

c10::Allocator* allocator() { return &npu_allocator; }

c10::DataPtr allocate(int device, size_t bytes) {
  if (bytes == 0) return {nullptr, npu(device)};
  if (is_checked()) {
    void* data = mmap(nullptr, page_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) refuse_memory(device, bytes);
    return owned(new Block, data, bytes, device);
  }
  void* raw = bytes > SIZE_MAX - kHeader ? nullptr : pto_malloc(kHeader + bytes);
  if (raw == nullptr) refuse_memory(device, bytes);
  return owned(new (raw) Block, static_cast<char*>(raw) + kHeader, bytes, device);
}

c10::DataPtr adopt(int device, const c10::Storage& storage) {
  const size_t bytes = storage.nbytes();
  if (bytes == 0 || storage.data() == nullptr) return {nullptr, npu(device)};
  if (is_checked()) {
    c10::DataPtr copy = allocate(device, bytes);
    const Access access(block_of(copy));
    std::memcpy(copy.get(), storage.data(), bytes);
    return copy;
  }
  auto* block = new Block;
  block->adopted = storage;
  return owned(block, storage.mutable_data(), bytes, device);
}

c10::DataPtr share(const c10::Storage& storage, c10::Device device) {
  const c10::DataPtr& data = storage.data_ptr();
  if (Block* block = block_of(data)) {
    block->owners.fetch_add(1, std::memory_order_relaxed);
    return {data.get(), block, &release_context, device};
  }
  if (!data) return {nullptr, device};
  c10::StorageImpl* const kept = storage.unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(kept);
  return {data.get(), kept, &release_storage, device};
}

c10::DataPtr share_at(const void* pointer) {
  c10::DataPtr shared;
  process_device_blocks().visit(pointer, [&](DeviceBlock& found) {
    auto* block = static_cast<Block*>(&found);
    block->owners.fetch_add(1, std::memory_order_relaxed);
    shared = {block->data(), block, &release_context, c10::Device(c10::kCPU)};
  });
  return shared;
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(),
              error_message("npu: this storage cannot be resized",
                            "its memory belongs to somebody else", "clone the tensor first"));
  const int device = storage.device().index();
  current_stream(device).wait();
  c10::StorageImpl* const resized = storage.unsafeGetStorageImpl();
  c10::DataPtr data = torch_npu::allocate(device, bytes);
  const size_t kept = std::min(bytes, resized->nbytes());
  if (kept > 0) {
    const Access from(block_of(resized->data_ptr())), to(block_of(data));
    std::memcpy(data.get(), resized->data(), kept);
  }
  resized->set_data_ptr_noswap(std::move(data));
  resized->set_nbytes(bytes);
}

Block* block_of(const c10::DataPtr& data) {
  return data.get_deleter() == &release_context ? static_cast<Block*>(data.get_context()) : nullptr;
}

c10::Allocator* pinned_allocator() { return &pinned; }

bool is_pinned(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::shared_lock lock(pinned_ranges().mutex);
  auto next = pinned_ranges().bytes.upper_bound(address);
  if (next == pinned_ranges().bytes.begin()) return false;
  --next;
  return address < next->first + std::max<size_t>(next->second, 1);
}

void open_access(Block* block) {
  if (block->adopted) return;
  const std::lock_guard lock(checked_mutex);
  if (block->users++ > 0) return;
  mprotect(block->data(), page_bytes(block->bytes), PROT_READ | PROT_WRITE);
}

void close_access(Block* block) {
  if (block->adopted) return;
  const std::lock_guard lock(checked_mutex);
  if (--block->users > 0) return;
  mprotect(block->data(), page_bytes(block->bytes), PROT_NONE);
}

}  // namespace pto::torch_npu
