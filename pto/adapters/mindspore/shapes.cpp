// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/mindspore/shapes.hpp"

#include <utility>

#include "pto/adapters/partial_outputs.hpp"

namespace pto::mindspore_adapter {
namespace {

constexpr int32_t kFloat32 = 11;  // pto::DType::F32

// f32 where the operator takes it, else the first that it takes.
int32_t any_dtype(uint32_t allowed) {
  return allowed >> kFloat32 & 1 ? kFloat32 : __builtin_ctz(allowed);
}

[[noreturn]] void refuse_size(const Request& request, const char* name, int64_t size) {
  fail(std::string(request.op().name) + ": " + name + " is " + std::to_string(size),
       "sizes are not negative", "pass larger tensors, or a number of at least 0");
}

struct NoName {
  friend bool operator==(NoName, NoName) { return true; }
};
using Size = PartialSize<NoName>;

// Refuses a SymInt attribute that is negative.
void check_sizes(const Request& request) {
  const pto_operator& op = request.op();
  const pto_operator_value* value = request.call(nullptr).attributes;
  for (int32_t i = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i])) continue;
    if (op.arguments[i].kind == PTO_KIND_SYMINT && value->integer < 0)
      refuse_size(request, op.arguments[i].name, value->integer);
    ++value;
  }
}

// Gives the number of results alone: nothing else is known without the rank of an argument.
InferredResults unknown_ranks(const Request& request) {
  const pto_operator& op = request.op();
  for (int32_t i = 0; i < op.n_outputs; ++i) {
    if (!op.outputs[i].is_list) continue;
    fail(std::string(op.name) + ": the number of its results is not known yet",
         "it depends on the rank of an argument, which is unknown while the graph is built",
         "call set_inputs with tensors of a shape such as [None, None]");
  }
  const auto count = static_cast<size_t>(op.n_outputs);
  return {std::vector<Shape>(count, {kUnknownRank}), {}, std::vector<int32_t>(count, 1)};
}

}  // namespace

InferredResults infer_shapes(const Request& request, const int* ranks, const int64_t* const* shapes,
                             const int32_t* dtypes) {
  std::vector<pto_tensor_ref> tensors(request.n_tensors());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (ranks[i] == 1 && shapes[i][0] == kUnknownRank) return unknown_ranks(request);
    tensors[i].rank = ranks[i];
    tensors[i].dtype = dtypes ? dtypes[i] : any_dtype(request.op().types[request.argument(i).type]);
  }
  const pto_operator_call call = request.call(tensors.data());
  check_sizes(request);
  std::vector<Size> sizes;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int d = 0; d < ranks[i]; ++d)
      sizes.push_back(shapes[i][d] == kUnknownSize ? Size::unknown() : Size::number(shapes[i][d]));
  InferredResults results;
  try {
    for (const auto& output : partial_outputs(call, std::move(sizes))) {
      Shape& shape = results.tensors.emplace_back();
      for (const Size& size : output.sizes) {
        if (size.is_known && size.value < 0)
          refuse_size(request, "a size of its result", size.value);
        shape.push_back(size.is_known ? size.value : kUnknownSize);
      }
      if (dtypes) results.dtypes.push_back(output.dtype);
    }
  } catch (const SizeRefusal& refusal) {
    fail(std::string(request.op().name) + ": " + refusal.what, refusal.why, refusal.fix);
  }
  const int32_t* const counts = pto_operator_shapes(&call)->counts;
  results.counts.assign(counts, counts + request.op().n_outputs);
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
