// SPDX-License-Identifier: Apache-2.0
// OperatorKernel: an operator as TensorFlow's OpKernel for the CPU: no copies, its allocator, its
// threads.
//
//     return new OperatorKernel(op, definition, construction);      // factory.hpp
//
// Invariant: an output takes over the memory of an input only if nobody else holds it.
// Thread safety: Compute may run on several threads at once.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "pto/abi/limits.h"
#include "pto/adapters/tensorflow/attributes.hpp"
#include "pto/adapters/tensorflow/dtypes.hpp"
#include "pto/adapters/tensorflow/executor.hpp"
#include "tensorflow/core/framework/op_kernel.h"

namespace pto::tensorflow_adapter {

// One call: the tensors as the operator wants them, and the memory of its outputs.
class ComputeCall {
 public:
  ComputeCall(const pto_operator& op, const Attributes& attributes,
              tensorflow::OpKernelContext* context)
      : op_(op), attributes_(attributes), context_(context) {}

  absl::Status run(pto_operator_site* site) {
    TF_RETURN_IF_ERROR(describe());
    const pto_operator_call call = {&op_,
                                    tensors_.data(),
                                    attributes_.counts_of_call(),
                                    attributes_.values(),
                                    &ComputeCall::allocate,
                                    this,
                                    &ComputeCall::narrow,
                                    nullptr};
    const HostThreads threads(context_->device()->tensorflow_cpu_worker_threads()->workers);
    if (pto_operator_site_run(site, &call) != 0) {
      return status_.ok() ? absl::InvalidArgumentError(pto_operator_error()) : status_;
    }
    if (!status_.ok()) return status_;
    if (made_ == context_->num_outputs()) return absl::OkStatus();
    return wrong_count("");
  }

 private:
  absl::Status describe() {
    const int inputs = context_->num_inputs();
    if (inputs > PTO_MAX_TENSORS) {
      return refuse(op_, "was given " + std::to_string(inputs) + " tensors",
                    "an operator takes at most " + std::to_string(PTO_MAX_TENSORS),
                    "call it on fewer at a time");
    }
    for (int i = 0; i < inputs; ++i) {
      const tensorflow::Tensor& input = context_->input(i);
      if (input.dims() > PTO_MAX_RANK) {
        return refuse(
            op_, "tensor " + std::to_string(i) + " has " + std::to_string(input.dims()) + " axes",
            "kernels take at most " + std::to_string(PTO_MAX_RANK), "reshape it");
      }
      const auto place = static_cast<size_t>(i);
      int64_t* const sizes = sizes_[place].data();
      for (int d = 0; d < input.dims(); ++d) sizes[d] = input.dim_size(d);
      tensors_[place] = {input.data(), sizes, nullptr, input.dims(), ours(input.dtype())};
    }
    return absl::OkStatus();
  }

  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype) {
    auto& self = *static_cast<ComputeCall*>(user);
    void* memory = nullptr;
    self.status_ = self.make(self.attributes_.output_place(output, member),
                             {sizes, static_cast<size_t>(rank)}, dtype, memory);
    return memory;
  }

  static void narrow(void* user, int32_t output, int64_t rows) {
    auto& self = *static_cast<ComputeCall*>(user);
    tensorflow::Tensor* const tensor =
        self.context_->mutable_output(self.attributes_.output_place(output, 0));
    if (absl::Status status = self.keep(rows, tensor); !status.ok()) self.status_ = status;
  }

  // Keeps the first rows. The memory stays if they use more than half of it; else the rows move, so
  // that a few do not hold room for all.
  absl::Status keep(int64_t rows, tensorflow::Tensor* tensor) {
    const tensorflow::Tensor kept = tensor->Slice(0, rows);
    tensorflow::Tensor moved;
    const bool moves = rows <= tensor->dim_size(0) / 2;
    if (moves) TF_RETURN_IF_ERROR(context_->allocate_temp(kept.dtype(), kept.shape(), &moved));
    if (moves && kept.TotalBytes() > 0) std::memcpy(moved.data(), kept.data(), kept.TotalBytes());
    *tensor = moves ? moved : kept;
    return absl::OkStatus();
  }

  absl::Status make(int32_t output, absl::Span<const int64_t> sizes, int32_t dtype, void*& memory) {
    if (output < 0) return wrong_count("more than ");
    if (context_->expected_output_dtype(output) != theirs(dtype)) {
      return refuse_node(op_,
                         "output " + std::to_string(output) + " is " +
                             tensorflow::DataTypeString(theirs(dtype)) + ", not " +
                             tensorflow::DataTypeString(context_->expected_output_dtype(output)));
    }
    tensorflow::TensorShape shape;
    TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(sizes, &shape));
    tensorflow::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(context_->forward_input_or_allocate_output(
        absl::MakeConstSpan(kPlaces).first(static_cast<size_t>(context_->num_inputs())), output,
        shape, &tensor));
    ++made_;
    memory = tensor->data() ? tensor->data() : this;  // an empty tensor has no memory
    return absl::OkStatus();
  }

  absl::Status wrong_count(const std::string& than) const {
    return refuse_node(op_, "gives " + than + std::to_string(made_) +
                                " tensors, but the node has " +
                                std::to_string(context_->num_outputs()) + " outputs");
  }

  static constexpr auto kPlaces = [] {
    std::array<int, PTO_MAX_TENSORS> places{};
    for (int i = 0; i < PTO_MAX_TENSORS; ++i) places[static_cast<size_t>(i)] = i;
    return places;
  }();

  const pto_operator& op_;
  const Attributes& attributes_;
  tensorflow::OpKernelContext* context_;
  absl::Status status_;
  int made_ = 0;
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> tensors_;
  std::array<std::array<int64_t, PTO_MAX_RANK>, PTO_MAX_TENSORS> sizes_;
};

class OperatorKernel : public tensorflow::OpKernel {
 public:
  OperatorKernel(const pto_operator& op, const tensorflow::OpDef& definition,
                 tensorflow::OpKernelConstruction* construction)
      : OpKernel(construction), op_(op) {
    const tensorflow::AttrSlice attrs(construction->def());
    const auto find = [&](const std::string& name) { return attrs.FindByString(name); };
    OP_REQUIRES_OK(construction, attributes_.read(op, definition, find));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, ComputeCall(op_, attributes_, context).run(site_.get()));
  }

 private:
  const pto_operator& op_;
  Attributes attributes_;
  const OwnedSite site_{pto_operator_site_new()};
};

}  // namespace pto::tensorflow_adapter
