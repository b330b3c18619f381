// SPDX-License-Identifier: Apache-2.0
// Custom operators that describe themselves: the code that hpu_custom_op.h and hpu_custom_op_pt2.h
// share.
//
//     pto::custom_op::add({"custom_op::custom_relu", "relu_fwd", shapes, params, inputs});
//     std::vector<at::Tensor> results = pto::custom_op::find("custom_op::custom_relu")->run(stack);
//
// A description names a kernel (pto/abi/guid.h); running it makes the outputs and calls the kernel.
// On meta and fake tensors it only makes the outputs, so that torch.compile and export work without
// a meta kernel; a symbolic size is then fixed to its value, since the callbacks take numbers.
// TORCH_LIBRARY_IMPL(space, HPU, m) registers for the CPU, npu and meta tensors alike.
//
// Invariant: a description is immutable and never removed. A name that was described twice, or
// wrongly, is an error at every use, not at load, where an exception would end the process.
// Thread safety: every function may be called from any thread.
#pragma once

#include "hpu_custom_op_arguments.h"  // PyTorch's headers first: HPU is a macro from here on
// Makes the outputs.
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "pto/abi/device_queue.h"
#include "pto/abi/guid.h"

namespace pto::custom_op {

inline at::Tensor make_output(const Description& about, const Arguments& arguments,
                              const Output& output) {
  if (output.replaces < 0) {
    for (const int64_t size : output.sizes) {
      if (size >= 0) continue;
      fail(about.name + ": an output has the sizes " + c10::str(output.sizes),
           "sizes are at least 0", "correct the shape callback or the arguments");
    }
    const auto options = at::TensorOptions().dtype(output.dtype).device(arguments.device());
    return output.strides.empty() ? at::empty(output.sizes, options)
                                  : at::empty_strided(output.sizes, output.strides, options);
  }
  const auto index = static_cast<size_t>(output.replaces);
  if (index >= arguments.stack().size() || !arguments.stack()[index].isTensor()) {
    fail(about.name + ": an output replaces value " + std::to_string(index),
         "an output can replace only a tensor argument of the call",
         "name the index of a tensor argument");
  }
  at::Tensor tensor = arguments.stack()[index].toTensor();
  if (tensor.scalar_type() != output.dtype || tensor.sizes() != at::IntArrayRef(output.sizes)) {
    fail(about.name + ": an output of type " + c10::toString(output.dtype) + " and sizes " +
             c10::str(output.sizes) + " replaces a tensor of type " +
             c10::toString(tensor.scalar_type()) + " and sizes " + c10::str(tensor.sizes()),
         "the new elements are written over the old ones",
         "give the output the type and sizes of that tensor");
  }
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.stride(axis) != 0 || tensor.size(axis) < 2) continue;
    fail(about.name + ": it writes to a tensor whose elements share memory",
         "an expanded tensor has one place for several elements", "pass tensor.clone()");
  }
  return tensor;
}

// A call with everything that it points to, but for the memory of its tensors: on a device it may
// run later, and it cannot keep the tensors themselves, since their end may need Python's lock.
class GuidCall {
 public:
  GuidCall(const Description& about, const Arguments& arguments,
            const std::vector<at::Tensor>& outputs)
      : guid_(about.guid),
        name_(about.name),
        scalars_(arguments.scalars()),
        kinds_(arguments.scalar_kinds()) {
    if (about.params) params_ = about.params(arguments.stack(), params_bytes_);
    for (const at::Tensor& tensor : arguments.tensors()) describe(tensor);
    n_inputs_ = tensors_.size();
    for (const at::Tensor& tensor : outputs) describe(tensor);
    const auto as_call = call();
    TORCH_CHECK(pto_guid_check(&as_call) == 0, pto_operator_error());
  }

  void run() const {
    const auto as_call = call();
    TORCH_CHECK(pto_guid_run(&as_call) == 0, pto_operator_error());
  }

  // Submits to the device's current stream.
  static void submit(std::unique_ptr<GuidCall> self, c10::Device device,
                     const std::vector<const void*>& objects) {
    int64_t bytes = 0;
    for (const pto_tensor_ref& tensor : self->tensors_) {
      int64_t elements = tensor.sizes ? 8 : 0;
      for (int32_t axis = 0; axis < tensor.rank; ++axis) elements *= tensor.sizes[axis];
      bytes = std::max(bytes, elements);
    }
    const pto_device_job job{run_job,        pto_operator_error,
                             release_job,    self.release(),
                             objects.data(), static_cast<int32_t>(objects.size()),
                             bytes,
                             nullptr,
                             0};
    TORCH_CHECK(pto_device_submit(device.index(), nullptr, &job) == 0, pto_last_error());
  }

 private:
  static int32_t run_job(void* self) {
    const auto as_call = static_cast<GuidCall*>(self)->call();
    return pto_guid_run(&as_call);
  }
  static void release_job(void* self) { delete static_cast<GuidCall*>(self); }

  void describe(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      tensors_.push_back({});
      return;
    }
    const auto& sizes = numbers_.emplace_back(tensor.sizes().vec());
    const auto& strides = numbers_.emplace_back(tensor.strides().vec());
    static constexpr int64_t kNone = 0;  // sizes of a tensor without axes; null is an absent one
    tensors_.push_back({tensor.data_ptr(), sizes.empty() ? &kNone : sizes.data(), strides.data(),
                        static_cast<int32_t>(tensor.dim()), dtype_of(name_, tensor.scalar_type())});
  }

  pto_guid_call call() const {
    return {guid_.c_str(),
            name_.c_str(),
            tensors_.data(),
            static_cast<int32_t>(n_inputs_),
            static_cast<int32_t>(tensors_.size()),
            scalars_.data(),
            static_cast<int32_t>(scalars_.size()),
            params_.get(),
            static_cast<int64_t>(params_bytes_),
            kinds_.data()};
  }

  std::string guid_, name_;
  std::vector<uint64_t> scalars_;
  std::vector<uint8_t> kinds_;
  std::vector<pto_tensor_ref> tensors_;
  std::deque<std::vector<int64_t>> numbers_;
  size_t n_inputs_ = 0;
  std::shared_ptr<void> params_;
  size_t params_bytes_ = 0;
};

inline std::vector<at::Tensor> Description::run(const std::vector<c10::IValue>& values) const {
  TORCH_CHECK(error.empty(), error);
  const Arguments arguments(*this, values);
  std::vector<at::Tensor> results;
  for (const Output& output : outputs(arguments.stack())) {
    results.push_back(make_output(*this, arguments, output));
  }
  const c10::Device device = arguments.device();
  if (device.is_meta()) return results;
  auto call = std::make_unique<GuidCall>(*this, arguments, results);
  if (device.is_cpu()) {
    call->run();
  } else if (device.is_privateuseone()) {
    std::vector<const void*> objects;
    for (const at::Tensor& tensor : arguments.tensors()) {
      if (tensor.defined()) objects.push_back(&tensor);
    }
    for (const at::Tensor& tensor : results) objects.push_back(&tensor);
    GuidCall::submit(std::move(call), device, objects);
  } else {
    fail(name + ": its tensors are on " + device.str(), "kernels run on cpu and npu tensors",
         "move them there");
  }
  return results;
}

// The descriptions of the process, by name.
struct Descriptions {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Description>> by_name;
};
inline Descriptions& descriptions() {
  static Descriptions* const it = new Descriptions;  // outlives every thread
  return *it;
}

inline void add(const std::shared_ptr<Description>& made) {
  Descriptions& all = descriptions();
  const std::lock_guard lock(all.mutex);
  auto& known = all.by_name[made->name];
  if (known) {
    auto broken = std::make_shared<Description>(*made);
    broken->error = made->name + ": is registered twice, with the kernels " + known->guid +
                    " and " + made->guid +
                    "\n  why: a name belongs to one description for the life of the process\n"
                    "  fix: register it once, or choose another name";
    known = broken;
  } else {
    known = made;
  }
}

// Throws where no operator, or more than one, was described under this name.
inline std::shared_ptr<const Description> find(const std::string& name) {
  Descriptions& all = descriptions();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) {
    std::string names;
    for (const auto& [one, about] : all.by_name) names += (names.empty() ? "" : ", ") + one;
    fail(name + ": no custom operator has this name",
         ("registered are: " + (names.empty() ? "none" : names)).c_str(),
         "register it before its first use, or correct the name");
  }
  TORCH_CHECK(found->second->error.empty(), found->second->error);
  return found->second;
}

}  // namespace pto::custom_op

// A callback that fills params uses it: sets `size`, declares `params`.
#define HPU_PARAMS_STUB(Params) \
  size = sizeof(Params);        \
  auto params = std::make_shared<Params>()

// One registration serves CPU, npu and meta tensors; gradients have their own key for all.
#define HPU CompositeExplicitAutograd
#define AutogradHPU Autograd
