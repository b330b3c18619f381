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

#include "pto/abi/operator.h"
#include "pto/adapters/torch/error_text.hpp"
#include "pto/adapters/torch/implementations.hpp"
#include "pto/adapters/torch/operator_name.hpp"

namespace pto::torch_adapter {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

c10::OperatorHandle handle_of(const pto_operator& op, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(qualified_name(op).c_str(), overload);
}

[[noreturn]] void refuse_writing(const char* name) {
  throw std::runtime_error(
      std::string(name) +
      ": a tensor requires grad, but the call writes into one that it was given\n"
      "  why: there is no gradient through memory that changes\n"
      "  fix: call the operator that returns a new tensor, or call it under torch.no_grad()");
}

// Refuses tensors that carry forward-mode derivatives, which would be lost silently.
void refuse_forward_mode(const char* name, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor._fw_grad(/*level=*/0).defined()) return;
  throw std::runtime_error(
      std::string(name) +
      ": called with a tensor that carries a forward-mode derivative (jvp, jacfwd, hessian)\n"
      "  why: operators have gradients for the backward pass only\n"
      "  fix: take torch.func.jacrev or torch.func.vjp; jacrev(jacrev(f)) for second derivatives");
}

bool is_tensor(const pto_operator_argument& argument) {
  return argument.kind <= PTO_KIND_TENSOR_LIST;
}

// An operator and, if it has one, its gradient; lives as long as the process.
struct Record {
  const pto_operator& op;
  const pto_operator* gradient;
  c10::OperatorHandle handle;
  std::optional<c10::OperatorHandle> gradient_handle;

  explicit Record(const pto_operator& op)
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

// The saved form of one value: a tensor, a list of tensors, or None.
struct Saved {
  std::vector<SavedVariable> tensors;
  bool is_list = false, is_none = false;

  static Saved of(const c10::IValue& value, bool is_output) {
    Saved saved;
    saved.is_list = value.isTensorList();
    saved.is_none = value.isNone();
    for_each_tensor(
        value, [&](const at::Tensor& tensor) { saved.tensors.emplace_back(tensor, is_output); });
    return saved;
  }

  c10::IValue unpack(const c10::intrusive_ptr<torch::autograd::Node>& node) const {
    if (is_none) return {};
    std::vector<at::Tensor> unpacked;
    for (const SavedVariable& one : tensors) unpacked.push_back(one.unpack(node));
    if (is_list) return c10::IValue(std::move(unpacked));
    return c10::IValue(unpacked.at(0));
  }
};

// The node of one forward call: its inputs are the gradients of the call's outputs, its outputs
// those of the wanted arguments; members of lists count one by one.
class Gradient : public torch::autograd::Node {
 public:
  explicit Gradient(const Record& record) : record_(record) {}

  std::string name() const override { return qualified_name(record_.op); }

  // Keeps what the gradient operator needs of the call: arguments now, outputs in add_output().
  void save_arguments(at::ArrayRef<c10::IValue> arguments) {
    const pto_operator& op = record_.op;
    for (int i = 0; i < op.n_saved; ++i) {
      const int source = op.saved[i];
      saved_.push_back(source >= 0 ? Saved::of(arguments[source], /*is_output=*/false) : Saved());
    }
    for (int i = 0; i < op.n_wanted; ++i) {
      const c10::IValue& value = arguments[op.wanted[i]];
      int members = 0;
      for_each_tensor(value, [&members](const at::Tensor&) { ++members; });
      members_.push_back(value.isTensorList() ? members : 1);
    }
    for (int i = 0; i < op.n_arguments; ++i) {
      if (!is_tensor(op.arguments[i])) attributes_.push_back(arguments[i]);
    }
  }

  void save_output(int output, const c10::IValue& value) {
    int members = 0;
    for_each_tensor(value, [&members](const at::Tensor&) { ++members; });
    if (record_.op.outputs[output].is_differentiable) {
      outputs_.push_back(value.isTensorList() ? members : -1);
    }
    for (int i = 0; i < record_.op.n_saved; ++i) {
      if (record_.op.saved[i] == -1 - output) {
        saved_[i] = Saved::of(value, record_.op.outputs[output].is_differentiable);
      }
    }
  }

  variable_list apply(variable_list&& d_outputs) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const pto_operator& op = record_.op;
    Stack stack = d_outputs_of(std::move(d_outputs));
    for (const Saved& saved : saved_) stack.push_back(saved.unpack(getptr()));
    stack.insert(stack.end(), attributes_.begin(), attributes_.end());
    int64_t needs = 0;
    size_t edge = 0;
    for (int i = 0; i < op.n_wanted; ++i) {
      for (int n = 0; n < members_[i]; ++n) {
        if (task_should_compute_output(edge++)) needs |= int64_t{1} << i;
      }
    }
    stack.emplace_back(needs);
    variable_list gradients(edge);
    if (needs == 0) return gradients;
    record_.gradient_handle->callBoxed(stack);
    edge = 0;
    for (int i = 0; i < op.n_wanted; edge += members_[i++]) {
      if ((needs >> i & 1) == 0) continue;
      size_t at = edge;
      for_each_tensor(stack[i], [&](const at::Tensor& tensor) { gradients.at(at++) = tensor; });
    }
    return gradients;
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {
    throw std::runtime_error(
        std::string(record_.op.name) +
        ": its gradient cannot be part of a compiled backward pass (compiled autograd)\n"
        "  why: the graph node of operators runs in C++ and is not traced\n"
        "  fix: compile the forward function, whose backward pass is compiled with it, or call "
        "backward() outside torch._dynamo.compiled_autograd");
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Saved& saved : saved_) {
      for (SavedVariable& one : saved.tensors) one.reset_data();
    }
  }

 private:
  // Returns the gradients as the operator takes them, with zeros for one that did not arrive.
  Stack d_outputs_of(variable_list&& d_outputs) {
    Stack stack;
    size_t next = 0;
    const auto take = [&] {
      at::Tensor& d = d_outputs[next];
      at::Tensor given = d.defined() ? std::move(d) : input_metadata(next).zeros_like();
      ++next;
      return given;
    };
    for (const int members : outputs_) {
      if (members < 0) {
        stack.emplace_back(take());
        continue;
      }
      std::vector<at::Tensor> list;
      for (int n = 0; n < members; ++n) list.push_back(take());
      stack.emplace_back(std::move(list));
    }
    return stack;
  }

  const Record& record_;
  std::vector<Saved> saved_;
  std::vector<int> members_;  // of each wanted argument
  std::vector<int> outputs_;  // of each output, -1 where it is no list
  std::vector<c10::IValue> attributes_;
};

// The kernel at the Autograd key: calls the operator below it and records the node.
class AutogradKernel : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const pto_operator& op)
      : record_(op), mutates_(mutates(op)), returned_(returned(op)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const pto_operator& op = record_.op;
    const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, op.n_arguments);
    for (const c10::IValue& argument : arguments) {
      for_each_tensor(argument, [&op](const at::Tensor& t) { refuse_forward_mode(op.name, t); });
    }
    c10::intrusive_ptr<Gradient> node;
    c10::intrusive_ptr<torch::autograd::Node> refusal;
    if (c10::GradMode::is_enabled()) {
      if (record_.gradient == nullptr) {
        refusal = refuse(arguments);
      } else if (needs_gradient(arguments)) {
        node = start(arguments);
      }
    }
    std::vector<at::Tensor> changed;
    if (mutates_) changed = mutable_tensors(arguments);
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      record_.handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    for (const at::Tensor& tensor : changed) torch::autograd::impl::bump_version(tensor);
    if (!node && !refusal) return;
    const at::ArrayRef<c10::IValue> outputs = torch::jit::last(*stack, returned_);
    for (int i = 0; i < returned_; ++i) {
      for_each_tensor(outputs[i], [&](const at::Tensor& output) {
        if (!op.outputs[i].is_differentiable) return;
        if (refusal) {
          torch::autograd::set_history(output, refusal);
        } else {
          torch::autograd::set_history(output, node);
        }
      });
      if (node) node->save_output(i, outputs[i]);
    }
  }

 private:
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
    std::string text = std::string(record_.op.name) + ": tensor " + argument +
                       " requires grad, but the operator has no gradient\n"
                       "  why: its result would silently cut the graph of gradients\n"
                       "  fix: give the operator a grad, call it under torch.no_grad(), or detach "
                       "the tensor";
    if (record_.op.gradient_of < 0) throw std::runtime_error(text);
    return c10::make_intrusive<torch::autograd::Error>(std::move(text), std::move(edges));
  }

  c10::intrusive_ptr<Gradient> start(at::ArrayRef<c10::IValue> arguments) const {
    auto node = c10::make_intrusive<Gradient>(record_);
    for (int i = 0; i < record_.op.n_wanted; ++i) {
      const c10::IValue& value = arguments[record_.op.wanted[i]];
      if (value.isNone()) node->add_next_edge(torch::autograd::Edge());
      for_each_tensor(value, [&node](const at::Tensor& tensor) {
        node->add_next_edge(tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor)
                                                   : torch::autograd::Edge());
      });
    }
    node->save_arguments(arguments);
    return node;
  }

  Record record_;
  bool mutates_;
  int returned_;
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
