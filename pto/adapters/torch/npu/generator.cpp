// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/npu/generator.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <mutex>
#include <utility>

#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {
namespace {

class NpuGenerator final : public c10::GeneratorImpl {
 public:
  NpuGenerator(int device, at::Generator numbers)
      : GeneratorImpl({kNpu, static_cast<c10::DeviceIndex>(device)},
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        numbers_(std::move(numbers)) {}

  const at::Generator& numbers() const { return numbers_; }

  void set_current_seed(uint64_t seed) override {
    const std::lock_guard lock(numbers_.mutex());
    numbers_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    const std::lock_guard lock(numbers_.mutex());
    numbers_.set_offset(offset);
  }
  uint64_t get_offset() const override {
    const std::lock_guard lock(numbers_.mutex());
    return numbers_.get_offset();
  }
  uint64_t current_seed() const override {
    const std::lock_guard lock(numbers_.mutex());
    return numbers_.current_seed();
  }
  uint64_t seed() override {
    const std::lock_guard lock(numbers_.mutex());
    return numbers_.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    const std::lock_guard lock(numbers_.mutex());
    numbers_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const std::lock_guard lock(numbers_.mutex());
    return numbers_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  NpuGenerator* clone_impl() const override {
    const std::lock_guard lock(numbers_.mutex());
    return new NpuGenerator(device_.index(), numbers_.clone());
  }

  mutable at::Generator numbers_;
};

}  // namespace

at::Generator new_generator(int device) {
  return at::make_generator<NpuGenerator>(device, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(int device) {
  static const auto* const all = [] {
    auto* made = new std::array<at::Generator, kMaxDevices>;
    for (int i = 0; i < device_count(); ++i) (*made)[static_cast<size_t>(i)] = new_generator(i);
    return made;
  }();
  return (*all)[static_cast<size_t>(device)];
}

const at::Generator& cpu_generator(const at::Generator& generator) {
  if (!generator.defined() || generator.device().type() != kNpu) return generator;
  return static_cast<NpuGenerator*>(generator.unsafeGetGeneratorImpl())->numbers();
}

BorrowedGenerator::BorrowedGenerator(int device)
    : device_(cpu_generator(default_generator(device))) {
  c10::GeneratorImpl* const cpu = at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl();
  c10::GeneratorImpl* const own = device_.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(cpu->mutex_, own->mutex_);
  cpu_state_ = cpu->get_state();
  cpu->set_state(*own->get_state());
}

BorrowedGenerator::~BorrowedGenerator() {
  c10::GeneratorImpl* const cpu = at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl();
  c10::GeneratorImpl* const own = device_.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(cpu->mutex_, own->mutex_);
  own->set_state(*cpu->get_state());
  cpu->set_state(*cpu_state_);
}

}  // namespace pto::torch_npu
