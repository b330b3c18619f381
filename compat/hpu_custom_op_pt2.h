// SPDX-License-Identifier: Apache-2.0
// The shorter public spelling of declarative custom operators: a name, a kernel, a callback that
// tells type and shape of the outputs, and one that fills the kernel's params.
//
//     habana::custom_op::registerUserCustomOp("custom_op::custom_topk", "topk", outputs, params);
//     auto topk = UserCustomOpDescriptor::getUserCustomOpDescriptor("custom_op::custom_topk");
//     std::vector<at::Tensor> results = topk.execute({x, k, axis, bottom});
//
// The kernel gets all tensors of the call in order, lists and absent optionals too, then the
// outputs. Numbers fill its scalar slots where there is no parameter callback. Beyond the public
// API an output may replace an input or have strides of its own, and the callback may tell another
// number of outputs for each call. See hpu_custom_op_execute.h for devices, meta tensors, errors.
//
// Invariant: a descriptor is immutable; copying it copies no description.
// Thread safety: every function may be called from any thread.
#pragma once
#include "hpu_custom_op_execute.h"

namespace habana {

struct PartialOutputMetaData {
  at::ScalarType dtype{at::ScalarType::Undefined};
  std::vector<int64_t> shape;
  int64_t replaces = -1;  // the index of the value whose elements it replaces
  std::vector<int64_t> strides = {};
};
using PartialOutputMetaDataVector = std::vector<PartialOutputMetaData>;

namespace custom_op {

using OutputMetaFn = std::function<PartialOutputMetaDataVector(const at::Stack&)>;
using FillParamsFn = std::function<std::shared_ptr<void>(const at::Stack&, size_t&)>;

class UserCustomOpDescriptor {
 public:
  UserCustomOpDescriptor() = default;
  UserCustomOpDescriptor(const std::string& schema, const std::string& guid,
                         OutputMetaFn output_meta_fn, FillParamsFn fill_params_fn = nullptr)
      : parts_(std::make_shared<const Parts>(
            Parts{schema, guid, std::move(output_meta_fn), std::move(fill_params_fn)})) {}

  // Throws for a name that is unknown or was registered twice. The reference lives as long as the
  // process.
  static const UserCustomOpDescriptor& getUserCustomOpDescriptor(const std::string& name) {
    const auto about = pto::custom_op::find(name);
    const std::lock_guard lock(registered().mutex);
    const auto found = registered().descriptors.find(name);
    if (found == registered().descriptors.end()) {
      pto::custom_op::fail(name + ": was registered with REGISTER_CUSTOM_OP_ATTRIBUTES",
                           "UserCustomOpDescriptor holds what registerUserCustomOp registered",
                           "call HabanaCustomOpDescriptor::getCustomOpDescriptor");
    }
    return found->second;
  }

  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs) const {
    return (about_ ? about_ : described())->run(inputs);
  }

  const std::string& getSchemaName() const { return parts_->schema; }
  const std::string& getGuid() const { return parts_->guid; }
  const OutputMetaFn& getOutputMetaFn() const { return parts_->outputs; }
  const FillParamsFn& getFillParamsFn() const { return parts_->params; }

 private:
  struct Parts {
    std::string schema, guid;
    OutputMetaFn outputs;
    FillParamsFn params;
  };
  struct Registered {
    std::mutex mutex;
    std::map<std::string, UserCustomOpDescriptor> descriptors;
  };
  static Registered& registered() {
    static Registered* const it = new Registered;
    return *it;
  }
  friend void registerUserCustomOp(const std::string&, const std::string&, OutputMetaFn,
                                   FillParamsFn);

  std::shared_ptr<pto::custom_op::Description> described() const {
    auto about = std::make_shared<pto::custom_op::Description>();
    about->name = parts_->schema;
    about->guid = parts_->guid;
    about->params = parts_->params;
    about->takes_all_tensors = true;
    if (!parts_->outputs) {
      about->error = about->name +
                     ": has no callback for its outputs\n  why: the callback tells the types "
                     "and shapes of the outputs\n  fix: pass a callback to registerUserCustomOp";
    }
    about->outputs = [parts = parts_](const at::Stack& stack) {
      std::vector<pto::custom_op::Output> made;
      for (const PartialOutputMetaData& one : parts->outputs(stack)) {
        made.push_back({one.dtype, one.shape, one.replaces, one.strides});
      }
      return made;
    };
    return about;
  }

  std::shared_ptr<const Parts> parts_ = std::make_shared<const Parts>();
  std::shared_ptr<const pto::custom_op::Description> about_;
};

inline void registerUserCustomOp(const std::string& schema, const std::string& guid,
                                 OutputMetaFn output_meta_fn,
                                 FillParamsFn fill_params_fn = nullptr) {
  UserCustomOpDescriptor descriptor(schema, guid, std::move(output_meta_fn),
                                    std::move(fill_params_fn));
  const auto about = descriptor.described();
  descriptor.about_ = about;
  pto::custom_op::add(about);
  auto& registered = UserCustomOpDescriptor::registered();
  const std::lock_guard lock(registered.mutex);
  registered.descriptors.emplace(schema, std::move(descriptor));
}

}  // namespace custom_op
}  // namespace habana
