// SPDX-License-Identifier: Apache-2.0
// Gradients of operators in C++: one autograd kernel and one graph node for all of them.
//
// Built for the exact version of the installed PyTorch by `python -m pto adapters build torch`,
// since a graph node is no part of PyTorch's stable interface; without this library autograd.py
// does the same in Python. What to save and where gradients go comes from op/operator.h.
// Thread safety: kernels and nodes may run on any thread; registration belongs to one at a time.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include "pto/op/operator.h"

namespace pto::torch_adapter {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

c10::OperatorHandle handle_of(const pto_operator& op) {
  const std::string name = std::string("pto::") + op.name;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

bool is_tensor(const pto_argument& argument) {
  return argument.kind == PTO_ARGUMENT_TENSOR || argument.kind == PTO_ARGUMENT_OPTIONAL_TENSOR;
}

// An operator and, where it has one, its gradient; lives as long as the process.
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

// One forward call that needs a gradient: inputs are the gradients of its outputs, outputs those of
// its wanted arguments.
class Gradient : public torch::autograd::Node {
 public:
  explicit Gradient(const Record& record) : record_(record) {}

  std::string name() const override { return std::string("pto::") + record_.op.name; }

  // Keeps what the gradient operator wants of the call: arguments now, outputs by add_output.
  void save_arguments(at::ArrayRef<c10::IValue> arguments) {
    const pto_operator& op = record_.op;
    for (int i = 0; i < op.n_saved; ++i) {
      const int source = op.saved[i];
      if (source >= 0 && arguments[source].isTensor()) {
        saved_.emplace_back(arguments[source].toTensor(), /*is_output=*/false);
      } else {
        saved_.emplace_back();
      }
    }
    for (int i = 0; i < op.n_arguments; ++i) {
      if (!is_tensor(op.arguments[i])) attributes_.push_back(arguments[i]);
    }
  }

  void save_output(int output, const at::Tensor& tensor) {
    for (int i = 0; i < record_.op.n_saved; ++i) {
      if (record_.op.saved[i] == -1 - output) saved_[i] = SavedVariable(tensor, true);
    }
  }

  variable_list apply(variable_list&& d_outputs) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const pto_operator& op = record_.op;
    Stack stack;
    for (size_t i = 0; i < d_outputs.size(); ++i) {
      at::Tensor& d = d_outputs[i];
      stack.emplace_back(d.defined() ? std::move(d) : input_metadata(i).zeros_like());
    }
    for (SavedVariable& saved : saved_) {
      at::Tensor tensor = saved.unpack(getptr());
      if (tensor.defined()) {
        stack.emplace_back(std::move(tensor));
      } else {
        stack.emplace_back();
      }
    }
    stack.insert(stack.end(), attributes_.begin(), attributes_.end());
    int64_t needs = 0;
    for (int i = 0; i < op.n_wanted; ++i) {
      if (task_should_compute_output(i)) needs |= int64_t{1} << i;
    }
    stack.emplace_back(needs);
    variable_list gradients(op.n_wanted);
    if (needs == 0) return gradients;
    record_.gradient_handle->callBoxed(stack);
    for (int i = 0; i < op.n_wanted; ++i) {
      if (needs >> i & 1) gradients[i] = stack[i].toTensor();
    }
    return gradients;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& saved : saved_) saved.reset_data();
  }

 private:
  const Record& record_;
  std::vector<SavedVariable> saved_;
  std::vector<c10::IValue> attributes_;
};

// The kernel at the Autograd key: calls the operator below it, and notes how to come back.
class AutogradKernel : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const pto_operator& op) : record_(op) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, Stack* stack) {
    const pto_operator& op = record_.op;
    const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, op.n_arguments);
    c10::intrusive_ptr<Gradient> node;
    c10::intrusive_ptr<torch::autograd::Node> refusal;
    if (c10::GradMode::is_enabled()) {
      if (record_.gradient == nullptr) {
        refusal = refuse(arguments);
      } else if (needs_gradient(arguments)) {
        node = start(arguments);
      }
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      record_.handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (!node && !refusal) return;
    const at::ArrayRef<c10::IValue> outputs = torch::jit::last(*stack, op.n_outputs);
    for (int i = 0; i < op.n_outputs; ++i) {
      const at::Tensor& output = outputs[i].toTensor();
      if (refusal) {
        torch::autograd::set_history(output, refusal);
      } else {
        torch::autograd::set_history(output, node);
        node->save_output(i, output);
      }
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

  static bool requires_grad(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
  }

  // Of an operator without gradient: null where none is asked for. A gradient operator is refused
  // only when its own derivative is taken, since create_graph runs it with the graph being
  // recorded.
  c10::intrusive_ptr<torch::autograd::Node> refuse(at::ArrayRef<c10::IValue> arguments) const {
    const char* argument = nullptr;
    torch::autograd::edge_list edges;
    for (int i = 0; i < record_.op.n_arguments; ++i) {
      if (!requires_grad(arguments[i])) continue;
      argument = argument ? argument : record_.op.arguments[i].name;
      edges.push_back(torch::autograd::impl::gradient_edge(arguments[i].toTensor()));
    }
    if (argument == nullptr) return {};
    std::string text = std::string(record_.op.name) + ": tensor " + argument +
                       " requires grad, but the operator has no gradient\n"
                       "  why: its result would silently cut the graph of gradients\n"
                       "  fix: give the operator a grad, call it under torch.no_grad(), or detach "
                       "the tensor";
    const pto_operator* before = pto_operator_at(record_.op.index - 1);
    if (before == nullptr || before->gradient != record_.op.index) throw std::runtime_error(text);
    return c10::make_intrusive<torch::autograd::Error>(std::move(text), std::move(edges));
  }

  c10::intrusive_ptr<Gradient> start(at::ArrayRef<c10::IValue> arguments) const {
    auto node = c10::make_intrusive<Gradient>(record_);
    for (int i = 0; i < record_.op.n_wanted; ++i) {
      const c10::IValue& value = arguments[record_.op.wanted[i]];
      node->add_next_edge(requires_grad(value)
                              ? torch::autograd::impl::gradient_edge(value.toTensor())
                              : torch::autograd::Edge());
    }
    node->save_arguments(arguments);
    return node;
  }

  Record record_;
};

thread_local std::string error;

}  // namespace
}  // namespace pto::torch_adapter

// Gives an operator that ops.cpp has registered its autograd kernel. Null, or the text of the
// error.
extern "C" const char* pto_torch_register_gradient(int32_t index) {
  using namespace pto::torch_adapter;
  try {
    static auto* const library = new torch::Library(torch::Library::IMPL, "pto",
                                                    c10::DispatchKey::Autograd, __FILE__, __LINE__);
    const pto_operator* op = pto_operator_at(index);
    TORCH_CHECK(op != nullptr, "there is no operator ", index);
    library->impl(op->name,
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutogradKernel>(*op)));
    return nullptr;
  } catch (const std::exception& e) {
    error = e.what();
    return error.c_str();
  }
}
