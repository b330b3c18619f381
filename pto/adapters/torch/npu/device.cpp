// SPDX-License-Identifier: Apache-2.0
// Answers what PyTorch asks of every device: the current one, its streams and events, its hooks.
// Thread safety: any thread may call every function.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "pto/adapters/torch/npu/generator.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/adapters/torch/npu/registration.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {
namespace {

c10::Stream handle(int device, int number) {
  return c10::Stream(c10::Stream::UNSAFE, npu(device), number);
}

Stream& stream_of(const c10::Stream& s) {
  TORCH_CHECK(s.id() >= 0 && s.id() < kStreams, "npu: there is no stream ", s.id());
  return stream(existing_device(s.device_index()), static_cast<int>(s.id()));
}

// An event is the mark of its last record.
using Event = std::shared_ptr<Mark>;
const Event& event_of(void* event) { return *static_cast<Event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNpu; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return npu(exchange_device(existing_device(device.index())));
  }
  c10::Device getDevice() const override { return npu(current_device()); }
  void setDevice(c10::Device device) const override {
    set_current_device(existing_device(device.index()));
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  c10::Stream getStream(c10::Device device) const override {
    const int index = existing_device(device.index());
    return handle(index, current_stream_number(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return handle(existing_device(device.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const int index = existing_device(device.index());
    return handle(index, next_pool_stream(index));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    stream_of(next);
    const int index = existing_device(next.device_index());
    const c10::Stream before = handle(index, current_stream_number(index));
    set_current_stream(index, static_cast<int>(next.id()));
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return &stream_of(s); }
  bool queryStream(const c10::Stream& s) const override { return stream_of(s).is_idle(); }
  void synchronizeStream(const c10::Stream& s) const override { stream_of(s).wait(); }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    wait_for_device(existing_device(device));
  }

  void record(void** event, const c10::Stream& s, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = stream_of(s).record();
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event != nullptr && event_of(event)) stream_of(s).wait_for(event_of(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || !event_of(event) || event_of(event)->is_passed();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr && event_of(event)) event_of(event)->wait();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  // PyTorch has checked that both were recorded and passed.
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return static_cast<double>(event_of(to)->passed_at_ns() - event_of(from)->passed_at_ns()) / 1e6;
  }
};

// The npu devices as PyTorch's accelerator.
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    set_current_device(existing_device(device));
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(exchange_device(existing_device(device)));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void*) const override { return npu(current_device()); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(existing_device(device));
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return new_generator(existing_device(device));
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

void register_device() {
  c10::SetAllocator(kNpu, allocator());
  c10::impl::registerDeviceGuard(kNpu, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace pto::torch_npu
