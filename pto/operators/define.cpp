// SPDX-License-Identifier: Apache-2.0
// pto_operator_define(): registers an operator made of plain C functions.
#include "pto/abi/define_operator.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/operators/last_error.hpp"
#include "pto/operators/native.hpp"
#include "pto/operators/operator.hpp"

// One call of infer: its size expressions by number, and its outputs so far.
struct pto_infer {
  const pto::ShapeRequest& request;
  const pto::Schema& schema;
  std::vector<pto::Dim> dims = {};
  std::vector<pto_operator_value> values = {};  // of the attributes, by place in the schema
  pto::InferredShapes result = {};
  size_t listed = 0;  // tensors that belong to closed outputs
  std::string error = {};
  pto::ErrorText refusal = {};

  int32_t add(const pto::Dim& dim) {
    dims.push_back(dim);
    return static_cast<int32_t>(dims.size()) - 1;
  }

  void fail(const std::string& what) {
    if (error.empty() && refusal.what.empty()) error = what;
  }

  bool holds(int32_t dim) {
    if (dim >= 0 && dim < static_cast<int32_t>(dims.size())) return true;
    fail("a size is " + std::to_string(dim) + ", which no function of pto_infer returned");
    return false;
  }

  const pto::TensorKind* tensor(int32_t index) {
    if (index >= 0 && index < static_cast<int32_t>(request.tensors.size())) {
      return &request.tensors[static_cast<size_t>(index)];
    }
    fail("it asks for tensor " + std::to_string(index) + " of " +
         std::to_string(request.tensors.size()));
    return nullptr;
  }

  // Returns the place of a tensor argument among the tensor arguments, or -1.
  int place(int32_t argument) {
    int place = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(schema.arguments.size()); ++i) {
      const bool is_tensor = pto::is_tensor(schema.arguments[static_cast<size_t>(i)]);
      if (i == argument && is_tensor) return place;
      place += is_tensor;
    }
    if (argument >= 0) fail("argument " + std::to_string(argument) + " is no tensor");
    return -1;
  }
};

namespace pto {
namespace {

using Infer = void (*)(pto_infer*, void*);

[[noreturn]] void broken(const std::string& name, const std::string& what) {
  fail({"operator " + name + ": its infer went wrong: " + what,
        "infer describes every output by the sizes of the inputs", "correct infer"});
}

void check_result(const std::string& name, pto_infer& context, const pto_operator& op) {
  if (!context.refusal.what.empty()) fail(context.refusal);
  if (!context.error.empty()) broken(name, context.error);
  std::vector<int32_t>& counts = context.result.counts;
  for (; context.listed < context.result.tensors.size(); ++context.listed) counts.push_back(1);
  if (static_cast<int32_t>(counts.size()) != op.n_outputs) {
    broken(name, "it described " + std::to_string(counts.size()) + " outputs, the schema has " +
                     std::to_string(op.n_outputs));
  }
}

InferredShapes run_infer(Infer infer, void* user, const ShapeRequest& request) {
  const Schema& schema = operator_at(request.op).schema;
  pto_infer context{request, schema};
  int symbol = 0;
  for (const TensorKind& kind : request.tensors) symbol += kind.rank;
  for (int i = 0; i < symbol; ++i) context.add(Dim::symbol(i));
  size_t attribute = 0;
  for (const Argument& argument : schema.arguments) {
    if (is_tensor(argument)) {
      context.values.emplace_back();
      continue;
    }
    context.values.push_back(plain_value(request.attributes[attribute++]));
    if (argument.kind != ArgumentKind::SymInt) continue;
    context.values.back().integer = context.add(Dim::symbol(symbol++));
  }
  infer(&context, user);
  check_result(schema.name, context, *pto_operator_at(request.op));
  return std::move(context.result);
}

// Returns the kernel for the dtype of the first type variable, else the one for any dtype.
pto_kernel kernel_for(const std::vector<pto_operator_kernel>& kernels,
                      const KernelRequest& request) {
  const auto dtype = static_cast<int32_t>(tensor_class(request.signature.words[0]).dtype);
  std::string known;
  for (const pto_operator_kernel& kernel : kernels) {
    if (kernel.dtype == dtype || kernel.dtype < 0) return kernel.function;
    known += (known.empty() ? "" : ", ") + std::string(name(static_cast<DType>(kernel.dtype)));
  }
  fail({std::string(pto_operator_at(request.op)->name) + ": there is no kernel for " +
            std::string(name(static_cast<DType>(dtype))),
        "its kernels are for " + known, "convert the tensors, or add a kernel"},
       ErrorKind::Type);
}

// Converts a list of names to sources, numbered as in abi/operator.h.
std::vector<int32_t> sources(const Schema& schema, const char* names) {
  std::vector<int32_t> found;
  for (const std::string_view name : names_in(names ? names : "")) {
    const size_t before = found.size();
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      if (schema.arguments[i].name == name) found.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < schema.returns.size() && found.size() == before; ++i) {
      if (schema.returns[i].name == name) found.push_back(-1 - static_cast<int32_t>(i));
    }
    if (found.size() != before) continue;
    fail({"operator " + schema.name + ": nothing is called " + std::string(name),
          "what is saved and wanted are arguments and outputs of " + text(schema),
          "use their names"});
  }
  return found;
}

std::vector<pto_operator_kernel> cpu_kernels(const pto_operator_definition& definition,
                                             const std::string& name) {
  std::vector<pto_operator_kernel> kernels;
  for (int32_t i = 0; i < definition.n_kernels; ++i) {
    if (std::string_view(definition.kernels[i].platform) == "cpu") {
      kernels.push_back(definition.kernels[i]);
    }
  }
  if (!kernels.empty() && definition.infer) return kernels;
  fail({"operator " + name + ": has " + std::to_string(kernels.size()) +
            " kernels for the platform cpu and " + (definition.infer ? "an" : "no") + " infer",
        "an operator needs infer and at least one kernel for the platform of this process",
        "add what is missing"});
}

int define(const pto_operator_definition& given) {
  const Schema schema = parse_schema(given.schema);
  if (given.abi_version != PTO_OPERATOR_ABI_VERSION) {
    fail({"operator " + schema.name + ": was built for version " +
              std::to_string(given.abi_version) + " of abi/operator.h, this is " +
              std::to_string(PTO_OPERATOR_ABI_VERSION),
          "the plain-C structures differ", "build it again with the headers of this installation"},
         ErrorKind::Runtime);
  }
  const auto kernels = cpu_kernels(given, schema.name);
  OperatorDefinition definition;
  definition.schema = given.schema;
  definition.types = given.types ? given.types : "";
  definition.document = given.document ? given.document : "";
  definition.gradient_name = given.gradient ? given.gradient : "";
  definition.saved = sources(schema, given.saved);
  definition.wanted = sources(schema, given.wanted);
  definition.bounded = given.bounded ? given.bounded : "";
  definition.takes_strides = given.flags & PTO_OPERATOR_TAKES_STRIDES;
  const Infer infer = given.infer;
  void* const user = given.user;
  definition.native.shapes = [infer, user](const ShapeRequest& request) {
    return run_infer(infer, user, request);
  };
  definition.native.kernel = [kernels](const KernelRequest& request) {
    return native_program(request, infer_shapes_for(request), kernel_for(kernels, request),
                          nullptr);
  };
  return define_operator(definition);
}

}  // namespace
}  // namespace pto

int32_t pto_infer_argument(pto_infer* context, const char* name) {
  const auto& arguments = context->schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) return static_cast<int32_t>(i);
  }
  context->fail(std::string("it asks for the argument ") + name + ", which the schema lacks");
  return -1;
}

int32_t pto_infer_tensors(pto_infer* context) {
  return static_cast<int32_t>(context->request.tensors.size());
}

int32_t pto_infer_count(pto_infer* context, int32_t argument) {
  const int place = context->place(argument);
  return place < 0 ? 0 : context->request.counts[static_cast<size_t>(place)];
}

int32_t pto_infer_first(pto_infer* context, int32_t argument) {
  int32_t first = 0;
  for (int i = 0; i < context->place(argument); ++i) {
    first += context->request.counts[static_cast<size_t>(i)];
  }
  return first;
}

int32_t pto_infer_rank(pto_infer* context, int32_t tensor) {
  const pto::TensorKind* kind = context->tensor(tensor);
  return kind ? kind->rank : 0;
}

int32_t pto_infer_dtype(pto_infer* context, int32_t tensor) {
  const pto::TensorKind* kind = context->tensor(tensor);
  return kind ? static_cast<int32_t>(kind->dtype) : 0;
}

int32_t pto_infer_size(pto_infer* context, int32_t tensor, int32_t axis) {
  const pto::TensorKind* kind = context->tensor(tensor);
  if (!kind) return -1;
  const int32_t wanted = axis < 0 ? axis + kind->rank : axis;
  if (wanted < 0 || wanted >= kind->rank) {
    context->fail("it asks for axis " + std::to_string(axis) + " of a tensor of rank " +
                  std::to_string(kind->rank));
    return -1;
  }
  int32_t symbol = wanted;
  for (int32_t i = 0; i < tensor; ++i) {
    symbol += context->request.tensors[static_cast<size_t>(i)].rank;
  }
  return symbol;  // the first expressions are the symbols
}

const pto_operator_value* pto_infer_attribute(pto_infer* context, int32_t argument) {
  static const pto_operator_value kNone{{0}, -1};
  if (argument >= 0 && argument < static_cast<int32_t>(context->values.size())) {
    return &context->values[static_cast<size_t>(argument)];
  }
  context->fail("it asks for argument " + std::to_string(argument));
  return &kNone;
}

int32_t pto_infer_symint(pto_infer* context, int32_t argument) {
  const pto_operator_value* value = pto_infer_attribute(context, argument);
  return value->count < 0 ? -1 : static_cast<int32_t>(value->integer);
}

int32_t pto_infer_constant(pto_infer* context, int64_t value) { return context->add(value); }

int32_t pto_infer_dim(pto_infer* context, int32_t op, int32_t left, int32_t right) {
  if (!context->holds(left) || !context->holds(right)) return -1;
  if (op < PTO_DIM_ADD || op > PTO_DIM_BROADCAST) {
    context->fail("there is no operation " + std::to_string(op) + " on sizes");
    return -1;
  }
  int32_t made = -1;
  const int32_t failed = pto::reported([&] {
    made = context->add(pto::Dim::make(static_cast<pto::DimOp>(op),
                                       context->dims[static_cast<size_t>(left)],
                                       context->dims[static_cast<size_t>(right)]));
  });
  if (failed) context->fail(pto_operator_error());
  return made;
}

void pto_infer_require_equal(pto_infer* context, int32_t left, int32_t right, const char* because) {
  if (!context->holds(left) || !context->holds(right)) return;
  const pto::Dim &a = context->dims[static_cast<size_t>(left)],
                 &b = context->dims[static_cast<size_t>(right)];
  const bool has_value = a.is_constant() || a.is_symbol();  // whatever the sizes of the call are
  if (!(a == b) || !has_value) context->result.guards.push_back({a, b, because});
}

void pto_infer_output(pto_infer* context, int32_t dtype, int32_t rank, const int32_t* sizes) {
  if (dtype < 0 || dtype >= pto::kDTypes) {
    context->fail("an output has the dtype " + std::to_string(dtype));
    return;
  }
  pto::InferredShapes::Tensor tensor{static_cast<pto::DType>(dtype), {}};
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (!context->holds(sizes[axis])) return;
    tensor.sizes.push_back(context->dims[static_cast<size_t>(sizes[axis])]);
  }
  // A tensor that no pto_infer_end_list() collects is an output of its own.
  context->result.tensors.push_back(std::move(tensor));
}

void pto_infer_end_list(pto_infer* context) {
  pto::InferredShapes& result = context->result;
  const auto& returns = context->schema.returns;
  while (result.counts.size() < returns.size() && !returns[result.counts.size()].is_list &&
         context->listed < result.tensors.size()) {
    result.counts.push_back(1);
    ++context->listed;
  }
  result.counts.push_back(static_cast<int32_t>(result.tensors.size() - context->listed));
  context->listed = result.tensors.size();
}

void pto_infer_work(pto_infer* context, int32_t items, int32_t bytes) {
  if (!context->holds(items) || !context->holds(bytes)) return;
  context->result.items = context->dims[static_cast<size_t>(items)];
  context->result.bytes = context->dims[static_cast<size_t>(bytes)];
}

void pto_infer_fail(pto_infer* context, const char* what, const char* why, const char* fix) {
  if (context->refusal.what.empty()) {
    context->refusal = {context->schema.name + ": " + what, why, fix};
  }
}

int32_t pto_operator_define(const pto_operator_definition* definition) {
  int32_t index = -1;
  pto::reported([&] { index = pto::define(*definition); });
  return index;
}
