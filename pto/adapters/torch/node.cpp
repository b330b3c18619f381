// SPDX-License-Identifier: Apache-2.0
// Gradients of operators in C++: one autograd kernel and one graph node for all of them.
//
// `python -m pto adapters build torch` builds it for the exact version of the installed PyTorch,
// since a graph node is not part of PyTorch's stable interface; without this library autograd.py
// does the same. abi/operator.h says what to save and where gradients go.
// Thread safety: kernels and nodes may run on any thread; one thread at a time registers.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <span>
#include <vector>

#include "pto/adapters/operator.hpp"
#include "pto/adapters/torch/error_text.hpp"
#include "pto/adapters/torch/gradient_lists.hpp"
#include "pto/adapters/torch/implementations.hpp"
#include "pto/adapters/torch/operator_name.hpp"
#include "pto/adapters/torch/refused_gradients.hpp"
#include "pto/base/error_message.hpp"

namespace pto::torch_adapter {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

c10::OperatorHandle handle_of(const pto_operator& op, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(qualified_name(op).c_str(), overload);
}

// An operator and, if it has one, its gradient; lives as long as the process.
struct GradientRecord {
  const pto_operator& op;
  const pto_operator* gradient;
  c10::OperatorHandle handle;
  std::optional<c10::OperatorHandle> gradient_handle;

  explicit GradientRecord(const pto_operator& op)
      : op(op), gradient(pto_operator_at(op.gradient)), handle(handle_of(op)) {
    if (gradient) gradient_handle = handle_of(*gradient);
  }
};

// Counts the results that PyTorch's schema returns: all but replaced arguments.
int returned(const pto_operator& op) {
  int count = 0;
  for (int i = 0; i < op.n_returns; ++i) count += op.outputs[i].replaces < 0;
  return count;
}

bool mutates(const pto_operator& op) {
  for (int i = 0; i < op.n_arguments; ++i) {
    if (op.arguments[i].flags & PTO_ARGUMENT_MUTABLE) return true;
  }
  return false;
}

// Calls f(tensor) for the tensor, or each of the list, that a value holds.
template <class F>
void for_each_tensor(const c10::IValue& value, F f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) f(tensor);
  }
}

bool requires_grad(const c10::IValue& value) {
  bool found = false;
  for_each_tensor(value, [&found](const at::Tensor& tensor) {
    found = found || (tensor.defined() && tensor.requires_grad());
  });
  return found;
}

// Tensors one after another, and how many of them each argument or output has.
struct Tensors {
  c10::SmallVector<at::Tensor, 8> flat;
  c10::SmallVector<int32_t, 8> counts;

  void add(const c10::IValue& value) {
    const size_t before = flat.size();
    for_each_tensor(value, [this](const at::Tensor& tensor) { flat.push_back(tensor); });
    counts.push_back(static_cast<int32_t>(flat.size() - before));
  }
};

// The arguments of a call.
struct Given {
  Tensors tensors;
  std::vector<c10::IValue> attributes;

  Given(const pto_operator& op, at::ArrayRef<c10::IValue> arguments) {
    for (int i = 0; i < op.n_arguments; ++i) {
      if (is_tensor(op.arguments[i])) {
        tensors.add(arguments[i]);
      } else {
        attributes.push_back(arguments[i]);
      }
    }
  }
};

// The node of one forward call: its inputs are the gradients of the differentiable outputs, its
// outputs those of the tensors that have one; members of lists count one by one.
class Gradient : public torch::autograd::Node {
 public:
  Gradient(const GradientRecord& record, const Given& given, const Tensors& outputs)
      : record_(record),
        plan_(*pto_operator_gradient_plan(&record.op, given.tensors.counts.data(),
                                          outputs.counts.data())),
        n_outputs_(static_cast<int32_t>(outputs.flat.size())),
        attributes_(given.attributes) {
    for (int i = 0; i < plan_.n_given; ++i) {
      const at::Tensor& tensor = given.tensors.flat[i];
      if (plan_.outputs[i] < 0) continue;
      add_next_edge(tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor)
                                           : torch::autograd::Edge());
    }
  }

  std::string name() const override { return qualified_name(record_.op); }

  // Keeps what the gradient operator needs, once the outputs know this node.
  void save(const Tensors& given, const Tensors& outputs) {
    saved_.reserve(plan_.n_inputs);
    for (int i = 0; i < plan_.n_inputs; ++i) {
      const int32_t argument = plan_.inputs[i] - n_outputs_;
      if (argument < 0) continue;
      const int32_t output = argument - plan_.n_given;
      if (output < 0) {
        saved_.emplace_back(given.flat[argument], /*is_output=*/false);
      } else {
        const at::Tensor& tensor = outputs.flat[output];
        saved_.emplace_back(tensor, /*is_output=*/tensor.requires_grad());
      }
    }
  }

  variable_list apply(variable_list&& d_outputs) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t needs = 0;
    size_t edge = 0;
    for (int i = 0; i < plan_.n_given; ++i) {
      const int32_t output = plan_.outputs[i];
      if (output >= 0 && task_should_compute_output(edge++)) needs |= int64_t{1} << output;
    }
    variable_list gradients(edge);
    if (needs == 0) return gradients;
    Stack stack = arguments_of(std::move(d_outputs));
    stack.insert(stack.end(), attributes_.begin(), attributes_.end());
    stack.emplace_back(needs);
    record_.gradient_handle->callBoxed(stack);
    edge = 0;
    for (int i = 0; i < plan_.n_given; ++i) {
      const int32_t output = plan_.outputs[i];
      if (output < 0) continue;
      at::Tensor& gradient = gradients[edge++];
      if ((needs >> output & 1) == 0) continue;
      const c10::IValue& result = stack[output];
      gradient = gradient_from(result, record_.op, plan_, i);
    }
    return gradients;
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {
    throw std::runtime_error(error_message(
        std::string(record_.op.name) +
            ": its gradient cannot be part of a compiled backward pass (compiled autograd)",
        "the graph node of operators runs in C++ and is not traced",
        "compile the forward function, whose backward pass is compiled with it, or call "
        "backward() outside torch._dynamo.compiled_autograd"));
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& one : saved_) one.reset_data();
  }

 private:
  // Returns the tensor arguments of the gradient operator, with zeros for gradients of outputs
  // that did not arrive.
  Stack arguments_of(variable_list&& d_outputs) {
    size_t input = 0, d_output = 0, saved = 0;
    const auto next = [&]() -> at::Tensor {
      if (plan_.inputs[input++] >= n_outputs_) return saved_[saved++].unpack(getptr());
      const size_t at = d_output++;
      return d_outputs[at].defined() ? std::move(d_outputs[at]) : input_metadata(at).zeros_like();
    };
    Stack stack;
    const pto_operator& gradient = *record_.gradient;
    for (int i = 0; i < gradient.n_tensors; ++i) {  // attributes come after them
      const int32_t count = plan_.counts[i];
      if (gradient.arguments[i].kind == PTO_KIND_TENSOR_LIST) {
        std::vector<at::Tensor> list;
        for (int n = 0; n < count; ++n) list.push_back(next());
        stack.emplace_back(std::move(list));
      } else if (count == 0) {
        stack.emplace_back();
      } else {
        stack.emplace_back(next());
      }
    }
    return stack;
  }

  const GradientRecord& record_;
  const pto_gradient_plan& plan_;
  const int32_t n_outputs_;  // their tensors
  std::vector<SavedVariable> saved_;
  std::vector<c10::IValue> attributes_;
};

// The kernel at the Autograd key: calls the operator below it and records the node.
class AutogradKernel : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const pto_operator& op)
      : record_(op), mutates_(mutates(op)), returned_(returned(op)), unwanted_(unwanted(op)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const pto_operator& op = record_.op;
    const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, op.n_arguments);
    for (const c10::IValue& argument : arguments)
      for_each_tensor(argument, [&op](const at::Tensor& t) { refuse_forward_mode(op.name, t); });
    std::optional<Given> given;
    c10::intrusive_ptr<torch::autograd::Node> refusal;
    if (c10::GradMode::is_enabled()) {
      if (record_.gradient == nullptr) refusal = refuse(arguments);
      refuse_unwanted(arguments);
      if (needs_gradient(arguments)) given.emplace(op, arguments);
    }
    std::vector<at::Tensor> changed;
    if (mutates_) changed = mutable_tensors(arguments);
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      record_.handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (given || refusal) link(given, refusal, torch::jit::last(*stack, returned_));
    // After saving, so that PyTorch refuses a gradient that needs the elements of before.
    for (const at::Tensor& tensor : changed) torch::autograd::impl::bump_version(tensor);
  }

 private:
  // Gives the outputs of a call the node of its gradient, or the refusal of one.
  void link(const std::optional<Given>& given,
            const c10::intrusive_ptr<torch::autograd::Node>& refusal,
            at::ArrayRef<c10::IValue> returned) const {
    Tensors outputs;
    for (int i = 0, next = 0; i < record_.op.n_outputs; ++i) {
      const bool replaces = record_.op.outputs[i].replaces >= 0;  // then PyTorch returns none
      outputs.add(replaces ? c10::IValue(at::Tensor()) : returned[next++]);
    }
    c10::intrusive_ptr<Gradient> gradient;
    if (given) gradient = c10::make_intrusive<Gradient>(record_, *given, outputs);
    const auto node = gradient ? c10::intrusive_ptr<torch::autograd::Node>(gradient) : refusal;
    size_t next = 0;
    for (int i = 0; i < record_.op.n_outputs; ++i) {
      for (int n = 0; n < outputs.counts[i]; ++n, ++next) {
        if (record_.op.outputs[i].is_differentiable) {
          torch::autograd::set_history(outputs.flat[next], node);
        }
      }
    }
    if (gradient) gradient->save(given->tensors, outputs);
  }

  // Returns the tensors that the gradient operator gives no gradient.
  static std::vector<int> unwanted(const pto_operator& op) {
    std::vector<int> found;
    const std::span wanted(op.wanted, static_cast<size_t>(op.n_wanted));
    for (int i = 0; i < op.n_arguments && op.gradient >= 0 && op.gradient_of < 0; ++i) {
      const bool is_wanted = std::ranges::find(wanted, i) != wanted.end();
      if (is_tensor(op.arguments[i]) && !is_wanted) found.push_back(i);
    }
    return found;
  }
  void refuse_unwanted(at::ArrayRef<c10::IValue> arguments) const {
    const pto_operator& op = record_.op;
    for (const int i : unwanted_)
      if (requires_grad(arguments[i]))
        throw std::runtime_error(without_gradient(op.name, op.arguments[i].name, " by it"));
  }

  bool needs_gradient(at::ArrayRef<c10::IValue> arguments) const {
    const pto_operator& op = record_.op;
    for (int i = 0; i < op.n_wanted; ++i) {
      if (requires_grad(arguments[op.wanted[i]])) return true;
    }
    return false;
  }

  std::vector<at::Tensor> mutable_tensors(at::ArrayRef<c10::IValue> arguments) const {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < record_.op.n_arguments; ++i) {
      if (record_.op.arguments[i].flags & PTO_ARGUMENT_MUTABLE) {
        tensors.push_back(arguments[i].toTensor());
      }
    }
    return tensors;
  }

  // Handles an operator without gradient: returns null if no gradient is asked for. A gradient
  // operator is refused only when its own derivative is taken, since create_graph runs it while it
  // records.
  c10::intrusive_ptr<torch::autograd::Node> refuse(at::ArrayRef<c10::IValue> arguments) const {
    const char* argument = nullptr;
    torch::autograd::edge_list edges;
    for (int i = 0; i < record_.op.n_arguments; ++i) {
      if (!requires_grad(arguments[i])) continue;
      argument = argument ? argument : record_.op.arguments[i].name;
      for_each_tensor(arguments[i], [&edges](const at::Tensor& tensor) {
        if (tensor.requires_grad()) {
          edges.push_back(torch::autograd::impl::gradient_edge(tensor));
        }
      });
    }
    if (argument == nullptr) return {};
    if (mutates_) refuse_writing(record_.op.name);
    std::string text = without_gradient(record_.op.name, argument, "");
    if (record_.op.gradient_of < 0) throw std::runtime_error(text);
    return c10::make_intrusive<torch::autograd::Error>(std::move(text), std::move(edges));
  }

  GradientRecord record_;
  bool mutates_;
  int returned_;
  std::vector<int> unwanted_;
};

// The kernel at the Autograd key of the overload "out": refuses gradients and marks changed
// tensors.
class OutKernel : public c10::OperatorKernel {
 public:
  explicit OutKernel(const pto_operator& op) : op_(op), handle_(handle_of(op, "out")) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const auto outs = static_cast<size_t>(op_.n_outputs);
    const at::ArrayRef<c10::IValue> arguments =
        torch::jit::last(*stack, static_cast<size_t>(op_.n_arguments) + outs);
    for (const c10::IValue& argument : arguments) {
      for_each_tensor(argument, [&](const at::Tensor& t) { refuse_forward_mode(op_.name, t); });
      if (c10::GradMode::is_enabled() && requires_grad(argument)) refuse_writing(op_.name);
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      handle_.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    for (const c10::IValue& out : torch::jit::last(*stack, outs)) {
      torch::autograd::impl::bump_version(out.toTensor());
    }
  }

 private:
  const pto_operator& op_;
  const c10::OperatorHandle handle_;
};

// Runs f(library, operator), which registers a kernel at the Autograd key. Returns null, or the
// text of the error.
template <class F>
const char* registered(int32_t index, F f) {
  return error_text([&] {
    const pto_operator* op = pto_operator_at(index);
    TORCH_CHECK(op != nullptr, "there is no operator ", index);
    f(library_of(*op, c10::DispatchKey::Autograd), *op);
  });
}

}  // namespace
}  // namespace pto::torch_adapter

// Registers the autograd kernel of an operator of ops.cpp. Returns null, or the text of the error.
extern "C" const char* pto_torch_register_gradient(int32_t index) {
  using namespace pto::torch_adapter;
  return registered(index, [](torch::Library& library, const pto_operator& op) {
    library.impl(qualified_name(op).c_str(),
                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutogradKernel>(op)));
  });
}

// Registers the autograd kernel of its overload "out".
extern "C" const char* pto_torch_register_out(int32_t index) {
  using namespace pto::torch_adapter;
  return registered(index, [](torch::Library& library, const pto_operator& op) {
    library.impl((qualified_name(op) + ".out").c_str(),
                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<OutKernel>(op)));
  });
}
