// SPDX-License-Identifier: Apache-2.0
// Declarative custom operators in the public spelling, on kernels of ours: a description of inputs,
// outputs and parameters, and a kernel by name (pto/abi/guid.h).
//
//     REGISTER_CUSTOM_OP_ATTRIBUTES("custom_op::custom_relu", "relu_fwd", inputs, outputs, params);
//     auto relu = HabanaCustomOpDescriptor::getCustomOpDescriptor("custom_op::custom_relu");
//     at::Tensor y = relu.execute({x})[0];
//
// The kernel gets the TENSOR inputs by their index, an optional or a list of them too, then the
// outputs by theirs; SCALAR inputs fill its scalar slots; params arrive as the parameter callback
// makes them. An output without a shape callback has the shape of the first tensor. Beyond the
// public API an OutputDesc may replace an input. See hpu_custom_op_execute.h for devices, meta
// tensors and errors.
//
// Invariant: a descriptor is immutable; copying it copies no description.
// Thread safety: every function may be called from any thread.
#pragma once
#include "hpu_custom_op_execute.h"

namespace habana::custom_op {

using output_shape = std::vector<int64_t>;
using compute_output_shape_function = std::function<output_shape(const at::Stack&)>;
using user_param = std::shared_ptr<void>;
using allocate_user_params_func = std::function<user_param(const at::Stack&, size_t&)>;

struct NodeDesc {
  std::string tpc_guid;
  std::string schema_name;
  allocate_user_params_func user_param_func = nullptr;
};

enum class input_type { TENSOR, SCALAR, USER_PARAMS };

struct InputDesc {
  input_type type;
  unsigned index;
};

struct OutputDesc {
  unsigned index;
  c10::ScalarType dtype = c10::ScalarType::Float;
  compute_output_shape_function compute_output_shape_func = nullptr;
  int64_t replaces = -1;  // the index of the input whose elements it replaces
};

class HabanaCustomOpDescriptor {
 public:
  HabanaCustomOpDescriptor() = default;
  HabanaCustomOpDescriptor(NodeDesc node, const std::vector<InputDesc>& inputs,
                           const std::vector<OutputDesc>& outputs)
      : parts_(std::make_shared<const Parts>(Parts{std::move(node), inputs, outputs})) {}

  // Throws for a name that is unknown or was registered twice.
  static HabanaCustomOpDescriptor getCustomOpDescriptor(const std::string& name) {
    const auto about = pto::custom_op::find(name);
    const std::lock_guard lock(registered().mutex);
    const auto found = registered().parts.find(name);
    if (found == registered().parts.end()) {
      pto::custom_op::fail(
          name + ": was registered with registerUserCustomOp",
          "HabanaCustomOpDescriptor holds what REGISTER_CUSTOM_OP_ATTRIBUTES registered",
          "call UserCustomOpDescriptor::getUserCustomOpDescriptor");
    }
    HabanaCustomOpDescriptor descriptor;
    descriptor.parts_ = found->second;
    descriptor.about_ = about;
    return descriptor;
  }

  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs) const {
    return (about_ ? about_ : described())->run(inputs);
  }

  const std::string& getSchemaName() const { return parts_->node.schema_name; }
  const std::string& getGuid() const { return parts_->node.tpc_guid; }
  unsigned getInputsSize() const { return static_cast<unsigned>(parts_->inputs.size()); }
  unsigned getOutputsSize() const { return static_cast<unsigned>(parts_->outputs.size()); }
  const std::vector<InputDesc>& getInputs() const { return parts_->inputs; }
  const std::vector<OutputDesc>& getOutputs() const { return parts_->outputs; }
  bool hasUserParamsFunc() const { return parts_->node.user_param_func != nullptr; }
  const allocate_user_params_func& getUserParamsAllocFunc() const {
    return parts_->node.user_param_func;
  }
  bool hasOutputShapeFunc(unsigned index) const { return getOutputShapeFunc(index) != nullptr; }
  const compute_output_shape_function& getOutputShapeFunc(unsigned index) const {
    return parts_->outputs.at(index).compute_output_shape_func;
  }

 private:
  struct Parts {
    NodeDesc node;
    std::vector<InputDesc> inputs;
    std::vector<OutputDesc> outputs;
  };
  struct Registered {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Parts>> parts;
  };
  static Registered& registered() {
    static Registered* const it = new Registered;
    return *it;
  }
  friend void registerKernel(HabanaCustomOpDescriptor& descriptor);

  // Orders by index; an index that comes twice, or leaves a gap among outputs, fails every use.
  std::shared_ptr<pto::custom_op::Description> described() const {
    auto about = std::make_shared<pto::custom_op::Description>();
    about->name = parts_->node.schema_name;
    about->guid = parts_->node.tpc_guid;
    about->params = parts_->node.user_param_func;
    std::map<unsigned, input_type> inputs;
    for (const InputDesc& input : parts_->inputs) {
      if (!inputs.emplace(input.index, input.type).second) refuse(*about, "inputs", input.index);
    }
    for (const auto& [index, type] : inputs) {
      if (type != input_type::USER_PARAMS) {
        about->inputs.push_back({index, type == input_type::SCALAR});
      }
    }
    std::map<unsigned, OutputDesc> outputs;
    for (const OutputDesc& output : parts_->outputs) {
      if (!outputs.emplace(output.index, output).second || output.index >= parts_->outputs.size()) {
        refuse(*about, "outputs", output.index);
      }
    }
    about->outputs = [outputs](const at::Stack& stack) {
      std::vector<pto::custom_op::Output> made;
      for (const auto& [index, output] : outputs) {
        made.push_back({output.dtype, shape_of(output, stack), output.replaces});
      }
      return made;
    };
    return about;
  }

  static void refuse(pto::custom_op::Description& about, const char* list, unsigned index) {
    about.error = about.name + ": its " + list + " have the index " + std::to_string(index) +
                  " twice, or one that is too large\n  why: each index names one of them, and "
                  "outputs count from 0\n"
                  "  fix: give each its own index";
  }

  static output_shape shape_of(const OutputDesc& output, const at::Stack& stack) {
    if (output.compute_output_shape_func) return output.compute_output_shape_func(stack);
    if (output.replaces >= 0 && output.replaces < static_cast<int64_t>(stack.size()) &&
        stack[static_cast<size_t>(output.replaces)].isTensor()) {
      return stack[static_cast<size_t>(output.replaces)].toTensor().sizes().vec();
    }
    for (const c10::IValue& value : stack) {
      if (value.isTensor()) return value.toTensor().sizes().vec();
    }
    return {};
  }

  std::shared_ptr<const Parts> parts_ = std::make_shared<const Parts>();
  std::shared_ptr<const pto::custom_op::Description> about_;
};

inline void registerKernel(HabanaCustomOpDescriptor& descriptor) {
  pto::custom_op::add(descriptor.described());
  auto& registered = HabanaCustomOpDescriptor::registered();
  const std::lock_guard lock(registered.mutex);
  registered.parts[descriptor.getSchemaName()] = descriptor.parts_;
}

}  // namespace habana::custom_op

#define REGISTER_CUSTOM_OP_ATTRIBUTES(schema_name, guid, inputs, outputs, param_func) \
  {                                                                                   \
    habana::custom_op::HabanaCustomOpDescriptor custom_op_descriptor(                 \
        habana::custom_op::NodeDesc{guid, schema_name, param_func}, inputs, outputs); \
    habana::custom_op::registerKernel(custom_op_descriptor);                          \
  }
