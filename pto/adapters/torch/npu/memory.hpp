// SPDX-License-Identifier: Apache-2.0
// Memory of the npu devices: blocks of host memory, counted by owners and by device.
//
//     c10::DataPtr data = allocate(device, bytes);       // an npu DataPtr that owns one reference
//     c10::DataPtr same = share(storage, at::kCPU);      // the same memory under another device
//
// In checked mode (PTO_NPU_CHECKED=1) every block lies on pages of its own, accessible only while
// an Access to it lives: a host that reads device memory crashes.
// Invariant: a block is given back with its last DataPtr, whatever its device, without Python's
// lock. A raw pointer into a block is bounded by the bytes asked for, and knows its device
// (launch/device_blocks.hpp).
// Thread safety: any thread may call every function.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pto/device/npu/stream.hpp"
#include "pto/launch/device_blocks.hpp"

namespace pto::torch_npu {

using namespace npu;  // devices and their streams

constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;
inline c10::Device npu(int device) { return {kNpu, static_cast<c10::DeviceIndex>(device)}; }

struct Block : DeviceBlock {
  std::atomic<int64_t> owners{1};
  int32_t users = 0;     // in checked mode: live accesses
  c10::Storage adopted;  // owns the memory if it is not ours

  void* data() const { return reinterpret_cast<void*>(base); }
};

// Says whether checked mode is on.
bool is_checked();

// Memory of the current device; empty for 0 bytes. Throws torch.OutOfMemoryError.
c10::Allocator* allocator();
c10::DataPtr allocate(int device, size_t bytes);

// Turns the storage that a CPU kernel made into memory of the device; copies in checked mode.
c10::DataPtr adopt(int device, const c10::Storage& storage);

// Returns another owner of the same memory; it keeps `storage` if the memory is no block of ours.
c10::DataPtr share(const c10::Storage& storage, c10::Device device);

// Returns another owner of the block behind a raw pointer, as CPU memory; empty if there is none.
c10::DataPtr share_at(const void* pointer);

// Resizes an npu storage to `bytes` and keeps what fits.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Returns the block behind memory of ours, or null.
Block* block_of(const c10::DataPtr& data);

// Page-locked memory of the host, from which copies are asynchronous.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* pointer);

// Count an access to the block, and end one, in checked mode.
void open_access(Block* block);
void close_access(Block* block);

// Makes the block accessible while it lives; does nothing outside checked mode.
class Access {
 public:
  explicit Access(Block* block) : block_(is_checked() ? block : nullptr) {
    if (block_ != nullptr) open_access(block_);
  }
  Access(Access&& other) noexcept : block_(other.block_) { other.block_ = nullptr; }
  Access& operator=(Access&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Access() {
    if (block_ != nullptr) close_access(block_);
  }

 private:
  Block* block_;
};

}  // namespace pto::torch_npu
