// SPDX-License-Identifier: Apache-2.0
// Factory: makes the kernels of one operator. TensorFlow's own factories pass no operator.
//
//     OpKernelRegistrar(def, name, std::make_unique<Factory<OperatorKernel>>(op, definition));
//
// Thread safety: any thread may call Create().
#pragma once
#include <memory>
#include <utility>

#include "pto/abi/operator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace pto::tensorflow_adapter {

template <class Kernel>
class Factory : public tensorflow::kernel_factory::OpKernelFactory {
 public:
  Factory(const pto_operator& op, std::shared_ptr<const tensorflow::OpDef> definition)
      : op_(op), definition_(std::move(definition)) {}

  tensorflow::OpKernel* Create(tensorflow::OpKernelConstruction* construction) override {
    return new Kernel(op_, *definition_, construction);
  }

 private:
  const pto_operator& op_;
  const std::shared_ptr<const tensorflow::OpDef> definition_;
};

}  // namespace pto::tensorflow_adapter
