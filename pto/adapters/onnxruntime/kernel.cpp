// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/kernel.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include "pto/abi/limits.h"
#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/base/error.hpp"
#include "pto/launch/hosted_loop.hpp"
#include "pto/launch/signature.hpp"

namespace pto::ort {
namespace {

// ONNX's numbers of the element types.
constexpr FrameworkTypes kTypes(9, 3, 5, 6, 7, 2, 4, 12, 13, 10, 16, 1, 11);

void run_block(void* loop, size_t block) {
  static_cast<HostedLoop*>(loop)->run_block(static_cast<int32_t>(block));
}

// Runs the blocks of one loop on ONNX Runtime's threads.
int32_t parallel_on_onnxruntime(void* user, int32_t blocks, BlockFunction function, void* context) {
  HostedLoop loop(blocks, function, context);
  const auto* host = static_cast<const KernelContext*>(user);
  const auto total = static_cast<size_t>(blocks);
  const bool ran = succeeded(api::KernelContext_ParallelFor(host, &run_block, total, 0, &loop));
  return ran ? loop.result() : kBlockThrew;
}

// One call: describes the tensors and hands out the outputs' memory.
class NodeRun {
 public:
  NodeRun(const NodeKernel& kernel, KernelContext* context) : kernel_(kernel), context_(context) {
    if (kernel.may_lack_inputs) check(api::KernelContext_GetInputCount(context, &n_inputs_));
    for (const Places& argument : kernel.inputs) {
      const size_t before = n_tensors_;
      if (argument.prepared) {
        add(argument.prepared->tensor());
        counts_[n_counts_++] = 1;
        continue;
      }
      for (const int32_t place : argument.places) take(static_cast<size_t>(place));
      if (argument.takes_rest) {
        for (auto place = static_cast<size_t>(argument.places.back()); ++place < n_inputs_;) {
          take(place);
        }
      }
      counts_[n_counts_++] = static_cast<int32_t>(n_tensors_ - before);
    }
  }

  void run() {
    const ScopedExecutor threads(&parallel_on_onnxruntime, context_);
    const pto_operator_call call = {&kernel_.op,        tensors_.data(),
                                    counts_.data(),     kernel_.attributes.data(),
                                    &NodeRun::allocate, this,
                                    &NodeRun::narrow,   nullptr};
    if (pto_operator_site_run(kernel_.site.get(), &call) != 0) throw std::runtime_error(text());
    for (const Bounded& one : bounded_) give(one);
    if (kernel_.outputs.empty()) check_count();
    kernel_.outputs_agree.store(true, std::memory_order_relaxed);
  }

 private:
  // Checks that a node has an output for each tensor of a list that it gives, and no more.
  void check_count() const {
    const int32_t last = kernel_.op.n_outputs - 1;
    if (last < 0 || !kernel_.op.outputs[last].is_list) return;
    size_t outputs = 0;
    check(api::KernelContext_GetOutputCount(context_, &outputs));
    if (n_made_ == outputs) return;
    fail({std::string(kernel_.op.name) + ": gives " + std::to_string(n_made_) +
              " tensors, but the node has " + std::to_string(outputs) + " outputs",
          "each tensor of a list is an output of the node", "correct the node in the model"});
  }

  // Takes the input at this place, if it is given.
  void take(size_t place) {
    const Value* value = nullptr;
    if (kernel_.may_lack_inputs && place >= n_inputs_) return;
    check(api::KernelContext_GetInput(context_, place, &value));
    if (!value) return;
    add(tensor_of(value));
    if (tensors_[n_tensors_ - 1].dtype < 0) refuse_element(n_tensors_ - 1, value);
  }

  void add(const pto_tensor_ref& tensor) {
    if (n_tensors_ == tensors_.size()) refuse_number();
    tensors_[n_tensors_++] = tensor;
  }

  [[noreturn]] void refuse_number() const {
    fail({std::string(kernel_.op.name) + ": called with more than " +
              std::to_string(tensors_.size()) + " tensors",
          "a call takes at most that many, and each member of a list counts", "split the list"});
  }

  [[noreturn]] void refuse_element(size_t tensor, const Value* value) const {
    int element = 0;
    size_t rank = 0;
    const int64_t* sizes = nullptr;
    check(api::GetTensorElementTypeAndShapeDataReference(value, &element, &sizes, &rank));
    fail({std::string(kernel_.op.name) + ": tensor " + std::to_string(tensor) +
              " has the ONNX element type " + std::to_string(element),
          "kernels exist for bool, integers, float16, bfloat16, float and double",
          "put a Cast before it"},
         ErrorKind::Type);
  }

  std::string text() const { return refused_.empty() ? pto_operator_error() : refused_; }

  // Only the last output may be a list, so its members follow the other outputs.
  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype) {
    auto& self = *static_cast<NodeRun*>(user);
    ++self.n_made_;
    try {
      return self.memory(output + member, sizes, static_cast<size_t>(rank), dtype);
    } catch (const std::exception& error) {
      self.refused_ = error.what();
      return nullptr;
    }
  }

  // An output whose number of rows the kernel reports: ONNX Runtime wants it before it gives
  // memory.
  struct Bounded {
    int32_t output, dtype;
    std::vector<int64_t> sizes;
    const void* rows;
  };

  static void narrow(void* user, int32_t output, int64_t rows) {
    for (Bounded& one : static_cast<NodeRun*>(user)->bounded_) {
      if (one.output == output) one.sizes[0] = rows;
    }
  }

  void give(const Bounded& one) {
    auto bytes = static_cast<size_t>(pto::bytes(static_cast<DType>(one.dtype)));
    for (const int64_t size : one.sizes) bytes *= static_cast<size_t>(size);
    void* to = wanted(one.output, one.sizes.data(), one.sizes.size(), one.dtype);
    if (bytes > 0) std::memcpy(to, one.rows, bytes);
  }

  void* memory(int32_t output, const int64_t* sizes, size_t rank, int32_t dtype) {
    const auto& outputs = kernel_.op.outputs;
    if (output >= kernel_.op.n_outputs || outputs[output].is_bounded == 0) {
      return wanted(output, sizes, rank, dtype);
    }
    bounded_.push_back({output, dtype, {sizes, sizes + rank}, unwanted(sizes, rank, dtype)});
    return unwanted_.back().get();
  }

  void* wanted(int32_t output, const int64_t* sizes, size_t rank, int32_t dtype) {
    const auto index = static_cast<size_t>(output);
    const int32_t place = kernel_.outputs.empty() ? output : kernel_.outputs.at(index);
    if (place < 0) return unwanted(sizes, rank, dtype);
    Value* value = nullptr;
    check(api::KernelContext_GetOutput(context_, static_cast<size_t>(place), sizes, rank, &value));
    if (!value) return unwanted(sizes, rank, dtype);
    void* data = nullptr;
    if (!kernel_.outputs_agree.load(std::memory_order_relaxed)) check_output(output, value, dtype);
    check(api::GetTensorMutableData(value, &data));
    return data ? data : this;  // an empty tensor has no memory and is not written
  }

  void check_output(int32_t output, const Value* value, int32_t dtype) const {
    int element = 0;
    const int64_t* sizes = nullptr;
    size_t rank = 0;
    check(api::GetTensorElementTypeAndShapeDataReference(value, &element, &sizes, &rank));
    if (element != element_of(dtype)) refuse_output(output, element, dtype);
  }

  [[noreturn]] void refuse_output(int32_t output, int element, int32_t dtype) const {
    const int ours = dtype_of(element);
    fail({std::string(kernel_.op.name) + ": output " + std::to_string(output) + " is " +
              std::string(name(static_cast<DType>(dtype))) + ", but the model says " +
              (ours < 0 ? std::to_string(element) : std::string(name(static_cast<DType>(ours)))),
          "ONNX Runtime fixed the element type when it loaded the model",
          "correct the type of the value in the model"},
         ErrorKind::Type);
  }

  void* unwanted(const int64_t* sizes, size_t rank, int32_t dtype) {
    size_t bytes = static_cast<size_t>(pto::bytes(static_cast<DType>(dtype)));
    for (size_t axis = 0; axis < rank; ++axis) bytes *= static_cast<size_t>(sizes[axis]);
    unwanted_.emplace_back(new std::byte[bytes + 1]);
    return unwanted_.back().get();
  }

  const NodeKernel& kernel_;
  KernelContext* context_;
  size_t n_inputs_ = 0, n_tensors_ = 0;
  size_t n_counts_ = 0, n_made_ = 0;
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> tensors_;
  std::array<int32_t, PTO_MAX_TENSORS> counts_;
  std::vector<std::unique_ptr<std::byte[]>> unwanted_;
  std::vector<Bounded> bounded_;
  std::string refused_;
};

}  // namespace

Prepared::Prepared(const pto_operator& op, const pto_tensor_ref& constant,
                   const pto_operator_value* attributes) {
  const auto allocate = [](void* user, int32_t, int32_t, const int64_t* sizes, int32_t rank,
                           int32_t dtype) -> void* {
    auto& self = *static_cast<Prepared*>(user);
    self.sizes_.assign(sizes, sizes + rank);
    int64_t bytes = pto::bytes(static_cast<DType>(dtype));
    for (const int64_t size : self.sizes_) bytes *= size;
    self.memory_.emplace("a constant of the model", bytes);
    self.tensor_ = {self.memory_->data(), self.sizes_.data(), nullptr, rank, dtype};
    return self.memory_->data();
  };
  const pto_operator_call call = {&op,      &constant, nullptr, attributes,
                                  allocate, this,      nullptr, nullptr};
  if (pto_operator_run(&call) != 0) throw std::runtime_error(pto_operator_error());
}

pto_tensor_ref tensor_of(const Value* value) {
  pto_tensor_ref tensor = {};
  int element = 0;
  size_t rank = 0;
  const void* data = nullptr;
  check(api::GetTensorElementTypeAndShapeDataReference(value, &element, &tensor.sizes, &rank));
  check(api::GetTensorData(value, &data));
  tensor.data = const_cast<void*>(data);
  tensor.rank = static_cast<int32_t>(rank);
  tensor.dtype = dtype_of(element);
  return tensor;
}

int dtype_of(int element) { return kTypes.ours(element); }
int element_of(int dtype) { return kTypes.theirs(dtype); }

void AttributeValues::add(const pto_operator_value& value, int32_t kind) {
  pto_operator_value added = value;
  if (value.count > 0 && kind == PTO_KIND_STRING) {
    texts_.emplace_back(value.text, static_cast<size_t>(value.count));
    added.text = texts_.back().data();
  } else if (value.count > 0 && kind == PTO_KIND_INT_LIST) {
    integers_.emplace_back(value.integers, value.integers + value.count);
    added.integers = integers_.back().data();
  }
  values_.push_back(added);
}

void NodeKernel::compute(KernelContext* context) const { NodeRun(*this, context).run(); }

}  // namespace pto::ort
