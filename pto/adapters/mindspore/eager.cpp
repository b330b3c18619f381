// SPDX-License-Identifier: Apache-2.0
// The fast path outside graphs: a Python module, built for the installed MindSpore.
//
//     call = pto_mindspore_eager.EagerCall("gelu", "1,;s4:none;", False)
//     y = call(x)                       # a tensor, or a tuple of them
//
// MindSpore's Python thread only queues a call. A second thread asks for the shapes of the results,
// makes them and links the node of the gradient; a third one runs kernels in order.
//
// Thread safety: as MindSpore's own operators; an EagerCall may be used from any thread.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ms_extension.h"

#include "include/pynative/backward/function.h"
#include "include/pynative/utils/pyboost/functions/auto_generate/functions.h"
#include "include/utils/pynative/grad_state.h"
#include "pto/adapters/mindspore/shapes.hpp"
#include "pto/base/dtype.hpp"

namespace pto::mindspore_adapter {
namespace {

namespace autograd = mindspore::pynative::autograd;
using mindspore::TypeId;
using mindspore::tensor::TensorPtr;

constexpr FrameworkTypes kTypes(TypeId::kNumberTypeBool, TypeId::kNumberTypeInt8,
                                TypeId::kNumberTypeInt16, TypeId::kNumberTypeInt32,
                                TypeId::kNumberTypeInt64, TypeId::kNumberTypeUInt8,
                                TypeId::kNumberTypeUInt16, TypeId::kNumberTypeUInt32,
                                TypeId::kNumberTypeUInt64, TypeId::kNumberTypeFloat16,
                                TypeId::kNumberTypeBFloat16, TypeId::kNumberTypeFloat32,
                                TypeId::kNumberTypeFloat64);

TypeId type_id(int32_t dtype) { return static_cast<TypeId>(kTypes.theirs(dtype)); }

int32_t dtype_of(const Request& request, size_t place, TypeId type) {
  if (const int32_t ours = kTypes.ours(type); ours >= 0) return ours;
  fail(std::string(request.op().name) + ": tensor " + request.argument(place).name +
           " has the dtype " + mindspore::TypeIdToString(type),
       "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
       "convert it first: x.astype(mindspore.float32)");
}

using Tensors = std::vector<ms::Tensor>;
using Counts = std::vector<int32_t>;

// The kernel of one call.
class Runner : public ms::pynative::PyboostRunner {
 public:
  Runner(std::shared_ptr<const Request> request)
      : PyboostRunner(request->op().name), request_(std::move(request)) {}

  void LaunchKernel() override {
    std::vector<pto_tensor_ref> tensors;
    std::vector<std::vector<int64_t>> strides;  // kernels read views as they are
    tensors.reserve(inputs().size());
    strides.reserve(inputs().size());
    for (const ms::Tensor& tensor : inputs()) {
      const auto& sizes = tensor.shape();
      strides.push_back(tensor.is_contiguous() ? Shape{} : tensor.stride());
      tensors.push_back({tensor.GetDataPtr(), sizes.data(),
                         strides.back().empty() ? nullptr : strides.back().data(),
                         static_cast<int32_t>(sizes.size()),
                         dtype_of(*request_, tensors.size(), tensor.data_type())});
    }
    call_ = request_->call(tensors.data());
    call_.allocate = &Runner::allocate;
    call_.user = this;
    if (pto_operator_run(&call_) != 0) throw std::runtime_error(pto_operator_error());
  }

 protected:
  // Runs at once: MindSpore's own CPU operators run on this thread too, and would not wait for a
  // kernel on the thread of launches.
  void _DispatchLaunchTask() override { LaunchKernel(); }

 private:
  // Checks the outputs again, though they have the shapes that the operator gave: a wrong one would
  // be written beyond its end.
  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype) {
    auto& self = *static_cast<Runner*>(user);
    const size_t place = place_of(self.call_, output, member);
    if (place >= self.outputs().size()) return nullptr;
    const ms::Tensor& tensor = self.outputs()[place];
    const Shape wanted(sizes, sizes + rank);
    if (tensor.shape() != wanted || tensor.data_type() != type_id(dtype)) {
      return nullptr;
    }
    void* data = tensor.GetDataPtr();
    return data ? data : user;  // an empty tensor may have no memory, and is not written
  }

  std::shared_ptr<const Request> request_;
  pto_operator_call call_ = {};
};

// Makes the outputs and queues the kernel; on MindSpore's second thread.
Tensors forward(const std::shared_ptr<const Request>& request, const Tensors& inputs) {
  std::vector<int> ranks;
  std::vector<const int64_t*> shapes;
  std::vector<int32_t> dtypes;
  for (const ms::Tensor& tensor : inputs) {
    tensor.SetNeedContiguous(false);
    ranks.push_back(static_cast<int>(tensor.shape().size()));
    shapes.push_back(tensor.shape().data());
    dtypes.push_back(dtype_of(*request, dtypes.size(), tensor.data_type()));
  }
  const InferredResults results =
      infer_shapes(*request, ranks.data(), shapes.data(), dtypes.data());
  Tensors outputs;
  for (size_t i = 0; i < results.tensors.size(); ++i) {
    outputs.emplace_back(type_id(results.dtypes[i]), results.tensors[i]);
  }
  std::make_shared<Runner>(request)->Run(inputs, outputs);
  return outputs;
}

class CallData {
 public:
  // `counts` says how many tensors each output is; empty: one each.
  CallData(const std::string& name, const std::string& text, const Counts& counts = {})
      : request(std::make_shared<Request>(name, text)) {
    const pto_operator& op = request->op();
    plan = pto_operator_gradient_plan(&op, request->call(nullptr).counts,
                                      counts.empty() ? nullptr : counts.data());
    for (int32_t i = 0; i < op.n_outputs; ++i) {
      const auto count = static_cast<size_t>(counts.empty() ? 1 : counts[static_cast<size_t>(i)]);
      const bool is_refused = !plan && op.outputs[i].replaces >= 0;  // its gradient, see below
      is_differentiable.insert(is_differentiable.end(), count,
                               op.outputs[i].is_differentiable || is_refused);
    }
  }

  std::shared_ptr<const Request> request;
  const pto_gradient_plan* plan = nullptr;  // null: the operator has no gradient
  std::vector<bool> is_differentiable;      // for each tensor of the results

  // Returns the gradient operator's call for these gradients; the first call makes it.
  std::shared_ptr<CallData> gradient(int64_t needs) {
    const std::lock_guard lock(mutex_);
    auto& found = gradients_[needs];
    if (!found) {
      const pto_operator& op = *pto_operator_at(plan->op);
      std::string text;
      for (int i = 0; i < op.n_tensors; ++i) text += std::to_string(plan->counts[i]) + ",";
      text += request->text().substr(request->attributes_at() - 1);
      Counts counts;
      for (int32_t i = 0; i < op.n_outputs; ++i) {
        const auto all = std::count(plan->outputs, plan->outputs + plan->n_given, i);
        counts.push_back(op.outputs[i].is_list ? static_cast<int32_t>(all) : 1);
      }
      found = std::make_shared<CallData>(op.name, text + "i" + std::to_string(needs) + ";", counts);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<CallData>> gradients_;
};

std::vector<TensorPtr> pointers(const Tensors& tensors) {
  std::vector<TensorPtr> result;
  for (const ms::Tensor& tensor : tensors) result.push_back(tensor.tensor());
  return result;
}

Tensors tensors_of(const std::vector<TensorPtr>& pointers) {
  Tensors result;
  for (const TensorPtr& pointer : pointers) result.emplace_back(pointer);
  return result;
}

// Returns the sum of a gradient over the axes along which broadcasting repeated an argument: a
// gradient operator that does not take the argument does not know its shape.
TensorPtr summed(const TensorPtr& gradient, const TensorPtr& argument) {
  const mindspore::ShapeVector &from = gradient->shape(), &to = argument->shape();
  if (from == to) return gradient;
  const size_t more = from.size() - std::min(from.size(), to.size());
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const bool repeated = axis < more || (to[axis - more] == 1 && from[axis] != 1);
    if (repeated) axes.push_back(static_cast<int64_t>(axis));
  }
  const auto all = mindspore::MakeValue(axes)->cast<mindspore::ValueTuplePtr>();
  const auto keeps = std::make_shared<mindspore::BoolImm>(true);
  using namespace mindspore::kernel::pyboost;
  return reshape(sum_ext(gradient, all, keeps, std::nullopt), to);
}

Tensors run(const std::shared_ptr<CallData>& call, const Tensors& inputs, bool requires_grad);

// The node of the gradient of one call.
struct Rule {
  // MindSpore's template names it; GradientNode answers in its place.
  static std::vector<TensorPtr> Backward(autograd::AutogradContext*,
                                         const std::vector<TensorPtr>&) {
    return {};
  }
};

class GradientNode : public autograd::CppFunctionNode<Rule> {
 public:
  GradientNode(std::shared_ptr<CallData> call, size_t outputs)
      : CppFunctionNode<Rule>(call->request->op().name, outputs), call_(std::move(call)) {}

  mindspore::ValuePtrList CallBackward(const mindspore::ValuePtrList& grads) override {
    if (call_->plan == nullptr) {
      fail(name() + ": its gradient is asked for, but the operator has none",
           "a result without gradient would silently cut the graph of gradients",
           "give the operator a grad, or call mindspore.ops.stop_gradient on what goes in");
    }
    const pto_gradient_plan& plan = *call_->plan;
    std::vector<TensorPtr> pool = autograd::GradPreProcess(grads, outputs_abstract_, true, name());
    const size_t d_outputs = pool.size();
    const auto saved = context_.GetSavedTensors();
    pool.insert(pool.end(), saved.begin(), saved.end());
    std::vector<TensorPtr> given;
    for (int i = 0; i < plan.n_inputs; ++i) {
      given.push_back(pool[static_cast<size_t>(plan.inputs[i])]);
    }
    int64_t needs = plan.has_lists ? plan.all_needs : 0;  // lists stay where `places` has them
    for (int i = 0; i < plan.n_given; ++i) {
      const bool is_asked = context_.NeedsInputGrad(static_cast<size_t>(i));
      if (is_asked && plan.outputs[i] >= 0) needs |= int64_t{1} << plan.outputs[i];
    }
    // MindSpore records a backward call that is differentiated again.
    const bool is_recorded = mindspore::kernel::pyboost::OpRunStatus::Get().RequireGrad();
    const Tensors results = run(call_->gradient(needs), tensors_of(given), is_recorded);
    std::vector<TensorPtr> gradients;
    for (int i = 0; i < plan.n_given; ++i) {
      const bool known = plan.outputs[i] >= 0 && (needs >> plan.outputs[i] & 1) != 0;
      const auto place = static_cast<size_t>(plan.places[i]), own = d_outputs + i;
      gradients.push_back(known ? summed(results[place].tensor(), pool[own]) : nullptr);
    }
    return autograd::GradPostProcess(gradients, is_tensor_input_, name());
  }

 private:
  std::shared_ptr<CallData> call_;
};

// Runs forward and links the node of its gradient.
Tensors differentiable(const std::shared_ptr<CallData>& call, const Tensors& inputs) {
  std::vector<TensorPtr> arguments = pointers(inputs);
  for (const TensorPtr& argument : arguments) argument->set_need_pipeline_sync(true);
  autograd::PrepareForForward();
  std::vector<TensorPtr> outputs;
  {
    const mindspore::kernel::pyboost::RequireGradGuard guard(false);
    outputs = pointers(forward(call->request, inputs));
  }
  auto node = std::make_shared<GradientNode>(call, outputs.size());
  node->is_tensor_input_.assign(arguments.size(), true);
  std::vector<TensorPtr> saved = arguments;
  saved.insert(saved.end(), outputs.begin(), outputs.end());
  node->context_.SaveForBackward(saved);
  node->SetContextBackwardNode(node);
  for (const TensorPtr& output : outputs) {
    auto abstract = output->ToAbstract();
    abstract->set_value(mindspore::kValueAny);
    node->outputs_abstract_.push_back(abstract);
  }
  std::vector<TensorPtr> whole;  // outputs of integers have no gradients
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!call->is_differentiable[i]) whole.push_back(outputs[i]);
  }
  if (!whole.empty()) node->context_.MarkNonDifferentiable(whole);
  CppFunctionDoGrad(&node->context_, arguments, &outputs);
  return tensors_of(outputs);
}

Tensors run(const std::shared_ptr<CallData>& call, const Tensors& inputs, bool requires_grad) {
  return requires_grad ? differentiable(call, inputs) : forward(call->request, inputs);
}

// The object that Python holds and calls; its results are no lists.
class EagerCall {
 public:
  EagerCall(const std::string& name, const std::string& text, bool many)
      : data_(std::make_shared<CallData>(name, text)), many_(many) {}

  py::object operator()(const py::args& args) const {
    Tensors inputs;
    for (const py::handle& argument : args) inputs.push_back(argument.cast<ms::Tensor>());
    auto results = mindspore::tensor::MakeVector<false>(data_->is_differentiable.size());
    const auto promises = mindspore::tensor::TransformVectorPromise(results);
    const bool requires_grad = mindspore::pynative::GradState::Get().RequiresGrad();
    mindspore::pynative::DispatchOp(std::make_shared<mindspore::pynative::PassthroughFrontendTask>(
        [call = data_, inputs, promises, requires_grad] {
          for (const ms::Tensor& input : inputs) input.ConvertStubNodeToTensor();
          mindspore::tensor::SetPromise(promises, pointers(run(call, inputs, requires_grad)));
        },
        [promises] { mindspore::tensor::SetException(promises); }));
    if (!many_) return py::reinterpret_steal<py::object>(results[0].value());
    return py::reinterpret_steal<py::object>(mindspore::tensor::TransformVectorOutput(results));
  }

 private:
  std::shared_ptr<CallData> data_;
  bool many_;
};

}  // namespace
}  // namespace pto::mindspore_adapter

PYBIND11_MODULE(pto_mindspore_eager, module) {
  using pto::mindspore_adapter::EagerCall;
  py::class_<EagerCall>(module, "EagerCall")
      .def(py::init<const std::string&, const std::string&, bool>())
      .def("__call__", &EagerCall::operator());
}
