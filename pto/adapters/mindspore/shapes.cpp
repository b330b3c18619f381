// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/mindspore/shapes.hpp"

#include <limits>
#include <stdexcept>

#include "pto/operators/plain_sizes.hpp"

namespace pto::mindspore_adapter {
namespace {

constexpr int32_t kFloat32 = 11;  // pto::DType::F32

// A value that is not known yet; -1 is one as good as any other within an expression.
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

// f32 where the operator takes it, else the first that it takes.
int32_t any_dtype(uint32_t allowed) {
  return allowed >> kFloat32 & 1 ? kFloat32 : __builtin_ctz(allowed);
}

[[noreturn]] void refuse(const Request& request, int64_t a, int64_t b, const char* because) {
  fail(std::string(request.op().name) + ": sizes " + std::to_string(a) + " and " +
           std::to_string(b) + " differ in " + because,
       "the operator needs them to be equal",
       "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1");
}

[[noreturn]] void refuse_size(const Request& request, const char* name, int64_t size) {
  fail(std::string(request.op().name) + ": " + name + " is " + std::to_string(size),
       "sizes are not negative", "pass larger tensors, or a number of at least 0");
}

int64_t broadcast(const Request& request, int64_t a, int64_t b) {
  if (a == 1) return b;
  if (b == 1 || a == b) return a;
  if (a == kUnknown) return b;
  if (b == kUnknown) return a;
  refuse(request, a, b, "a broadcast");
}

int64_t evaluate(const Request& request, const pto_shapes& shapes, int32_t place,
                 const Shape& symbols, const Shape& dims) {
  const pto_dim& dim = shapes.dims[place];
  if (dim.op == PTO_DIM_CONSTANT) return dim.value;
  if (dim.op == PTO_DIM_SYMBOL) return symbols[static_cast<size_t>(dim.value)];
  const int64_t a = dims[static_cast<size_t>(dim.left)];
  const int64_t b = dims[static_cast<size_t>(dim.right)];
  if (dim.op == PTO_DIM_BROADCAST) return broadcast(request, a, b);
  if (a == kUnknown || b == kUnknown) return kUnknown;
  int64_t size = 0;
  const std::string wrong = evaluate_size(shapes, place, a, b, &size);
  if (wrong.empty() && size != kUnknown) return size;
  fail(std::string(request.op().name) + ": " + (wrong.empty() ? "a size is -2^63" : wrong),
       "sizes are signed 64-bit numbers, and divisors are not 0", "pass tensors of other sizes");
}

// The sizes of all given tensors, then the SymInt attributes.
Shape symbols_of(const Request& request, const int* ranks, const int64_t* const* shapes) {
  Shape symbols;
  for (size_t i = 0; i < request.n_tensors(); ++i) {
    for (int d = 0; d < ranks[i]; ++d) {
      symbols.push_back(shapes[i][d] == kUnknownSize ? kUnknown : shapes[i][d]);
    }
  }
  const pto_operator& op = request.op();
  const pto_operator_value* value = request.call(nullptr).attributes;
  for (int32_t i = 0; i < op.n_arguments; ++i) {
    const int32_t kind = op.arguments[i].kind;
    if (kind == PTO_KIND_TENSOR || kind == PTO_KIND_TENSOR_LIST) continue;
    if (kind == PTO_KIND_SYMINT && value->count >= 0) {
      if (value->integer < 0) refuse_size(request, op.arguments[i].name, value->integer);
      symbols.push_back(value->integer);
    }
    ++value;
  }
  return symbols;
}

// Of a tensor whose rank is not known nothing is known of the results but their number.
Results unknown_ranks(const Request& request) {
  const pto_operator& op = request.op();
  for (int32_t i = 0; i < op.n_outputs; ++i) {
    if (!op.outputs[i].is_list) continue;
    fail(std::string(op.name) + ": how many tensors it returns is not known",
         "a graph must know it, and it depends on the rank of an argument that has none yet",
         "give set_inputs a shape such as [None, None]");
  }
  const auto count = static_cast<size_t>(op.n_outputs);
  return {std::vector<Shape>(count, {kUnknownRank}), {}, std::vector<int32_t>(count, 1)};
}

}  // namespace

Results infer_shapes(const Request& request, const int* ranks, const int64_t* const* shapes,
                     const int32_t* dtypes) {
  std::vector<pto_operator_tensor> tensors(request.n_tensors());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (ranks[i] == 1 && shapes[i][0] == kUnknownRank) return unknown_ranks(request);
    tensors[i].rank = ranks[i];
    tensors[i].dtype = dtypes ? dtypes[i] : any_dtype(request.op().types[request.argument(i).type]);
  }
  const pto_operator_call call = request.call(tensors.data());
  const pto_shapes* program = pto_operator_shapes(&call);
  if (!program) throw std::runtime_error(pto_operator_error());
  const Shape symbols = symbols_of(request, ranks, shapes);
  Shape dims;
  for (int32_t i = 0; i < program->n_dims; ++i) {
    dims.push_back(evaluate(request, *program, i, symbols, dims));
  }
  const auto value = [&](int32_t entry) { return dims[static_cast<size_t>(entry)]; };
  for (int32_t i = 0; i < program->n_guards; ++i) {
    const pto_shape_guard& guard = program->guards[i];
    const int64_t a = value(guard.left), b = value(guard.right);
    if (a != b && a != kUnknown && b != kUnknown) refuse(request, a, b, guard.because);
  }
  Results results;
  results.counts.assign(program->counts, program->counts + request.op().n_outputs);
  for (int32_t i = 0; i < program->n_tensors; ++i) {
    const pto_shape& shape = program->tensors[i];
    Shape& sizes = results.tensors.emplace_back();
    for (int32_t d = 0; d < shape.rank; ++d) {
      const int64_t size = value(shape.sizes[d]);
      if (size < 0 && size != kUnknown) refuse_size(request, "a size of its result", size);
      sizes.push_back(size == kUnknown ? kUnknownSize : size);
    }
    if (dtypes) results.dtypes.push_back(shape.dtype);
  }
  return results;
}

size_t place_of(const pto_operator_call& call, int32_t output, int32_t member) {
  int32_t place = output + member;
  for (int32_t i = 0; i < output; ++i) {
    if (!call.op->outputs[i].is_list) continue;
    const pto_shapes* shapes = pto_operator_shapes(&call);  // known: the call has got its outputs
    place += shapes->counts[i] - 1;
  }
  return static_cast<size_t>(place);
}

}  // namespace pto::mindspore_adapter
