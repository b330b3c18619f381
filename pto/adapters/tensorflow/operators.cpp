// SPDX-License-Identifier: Apache-2.0
// Registers every operator of the registry with TensorFlow, for the CPU.
//
// `python -m pto adapters build tensorflow` builds it for the exact version of the installed
// TensorFlow. Loading it registers nothing.
// Thread safety: one thread at a time registers; any thread may call the rest.
#include <memory>
#include <string>

#include "pto/adapters/tensorflow/definition.hpp"
#include "pto/adapters/tensorflow/factory.hpp"
#include "pto/adapters/tensorflow/kernel.hpp"
#include "pto/adapters/tensorflow/shape.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_util.h"

namespace pto::tensorflow_adapter {
namespace {

// Checks everything first: TensorFlow ends the process if a registration fails.
absl::Status register_operator(const pto_operator& op) {
  const auto definition = std::make_shared<const tensorflow::OpDef>(definition_of(op));
  TF_RETURN_IF_ERROR(tensorflow::ValidateOpDef(*definition));
  if (tensorflow::OpRegistry::Global()->LookUp(definition->name())) {
    return refuse(op, definition->name() + " is registered with TensorFlow already",
                  "a name is registered once in a process", "load one copy of the adapter");
  }
  tensorflow::OpRegistry::Global()->Register(
      [&op, definition](tensorflow::OpRegistrationData* data) {
        data->op_def = *definition;
        data->shape_inference_fn = [&op, definition](InferenceContext* context) {
          return infer_shapes(op, *definition, context);
        };
        return absl::OkStatus();
      });
  tensorflow::kernel_factory::OpKernelRegistrar(
      tensorflow::KernelDefBuilder(definition->name().c_str())
          .Device(tensorflow::DEVICE_CPU)
          .Build(),
      definition->name(), std::make_unique<Factory<OperatorKernel>>(op, definition));
  return absl::OkStatus();
}

thread_local std::string error;

}  // namespace
}  // namespace pto::tensorflow_adapter

// The version of TensorFlow for which this library was built.
extern "C" const char* pto_tensorflow_version() { return PTO_TENSORFLOW_VERSION; }

// Registers an operator of the registry with TensorFlow. Returns null, or the text of the error.
extern "C" const char* pto_tensorflow_register(int32_t index) {
  using namespace pto::tensorflow_adapter;
  const pto_operator* op = pto_operator_at(index);
  if (!op) return "there is no such operator";
  const absl::Status status = register_operator(*op);
  if (status.ok()) return nullptr;
  error = std::string(status.message());
  return error.c_str();
}
