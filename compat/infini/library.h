// SPDX-License-Identifier: Apache-2.0
// Calls of one signature through the library's table, with outputs or with results.
//
//     const pto_aten_operator* add = find("add.out");
//     check_slot(add, "add.out", config);
//     run(signature, add, values, 3);        // inputs and attributes, then outputs
//
// The part for PyTorch is opened once, for the PyTorch that the process has loaded, or else for the
// one that `infini/ops.h` was written for.
// Errors: pto::aten::Error with what, why and fix; a refused call has written nothing.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include "infini/arguments.h"
#include "infini/context.h"
#include "infini/signature.h"

#if __has_include(<infini/ops/torch_folder.h>)
#include <infini/ops/torch_folder.h>
#else
#define PTO_INFINI_TORCH_FOLDER ""
#endif

namespace infini::ops::detail {

constexpr std::size_t kAten = 8;  // the slot of ATen's kernels

inline const pto_aten_library& library() {
  static const pto_aten_library* const table =
      pto::aten::open_part(pto::aten::build_id().empty() ? PTO_INFINI_TORCH_FOLDER : "");
  return *table;
}

inline const pto_aten_operator* find(const char* name) {
  if (const pto_aten_operator* op = library().find(name)) return op;
  throw pto::aten::Error(library().error());
}

// Refuses a call whose wish for a slot cannot be met.
inline void check_slot(const pto_aten_operator* op, const char* name, const Config& config) {
  if (!library().has_kernel(op))
    throw pto::aten::Error(std::string(name) + " has no active implementation on cpu",
                           "PyTorch " + std::string(library().torch_version) +
                               " has no kernel of it for dense tensors of the CPU",
                           "call another operator");
  if (config.has_implementation_index() && config.implementation_index() != kAten)
    throw pto::aten::Error(std::string(name) + " has no implementation " +
                               std::to_string(config.implementation_index()) + " on cpu",
                           "its slots are 8 aten", "set one of these, or none");
}

// Owns results of a call until the end of a scope.
struct Results {
  static constexpr std::int32_t kRoom = 64;
  pto_aten_value all[kRoom];
  std::int32_t count = 0;
  Results() = default;
  Results(const Results&) = delete;
  ~Results() {
    for (std::int32_t i = 0; i < count; ++i) library().release(&all[i]);
  }
};

inline void call(const pto_aten_operator* op, const std::vector<pto_aten_value>& values,
                 Results& results) {
  const std::int32_t n = library().call(op, values.data(), static_cast<std::int32_t>(values.size()),
                                        results.all, Results::kRoom);
  if (n < 0) throw pto::aten::Error(library().error());
  results.count = n;
}

// Inputs in the order of the schema; those that are not given are left out.
inline std::vector<pto_aten_value> arranged(const Signature& one, const pto_aten_value* given,
                                            std::size_t n_inputs) {
  std::vector<pto_aten_value> values;
  for (const char* place = one.order; *place; ++place) {
    const auto at = static_cast<std::size_t>(*place - 'a');
    values.push_back(at < n_inputs ? given[at] : value_of(PTO_ATEN_LEFT_OUT));
    if (large(one.inputs[at]) == 'B' && values.back().kind == PTO_ATEN_INT) {
      values.back().kind = PTO_ATEN_BOOL;  // 0 and 1 where a bool is taken
      values.back().integer = values.back().integer != 0;
    }
  }
  return values;
}

struct Layout {
  Tensor::Shape shape;
  DataType type = DataType::kFloat32;
};

inline Layout layout_of(const pto_aten_value& tensor) {
  pto_aten_memory memory = tensor.memory;
  if (tensor.kind == PTO_ATEN_TENSOR && library().describe(tensor.object, &memory) != 0)
    throw pto::aten::Error(library().error());
  return {Tensor::Shape(memory.sizes, memory.sizes + memory.rank),
          rt::data_type_of(memory.type_code, memory.type_bits)};
}

inline std::string text_of(const Layout& layout) {
  std::string text(rt::row_of(layout.type).name);
  for (std::size_t i = 0; i < layout.shape.size(); ++i)
    text += (i ? ", " : "[") + std::to_string(layout.shape[i]);
  return text + (layout.shape.empty() ? "[]" : "]");
}

// Writes the elements of a result into an output of its sizes and type.
inline void copy(const pto_aten_value& result, const pto_aten_value& output) {
  const Layout made = layout_of(result), given = layout_of(output);
  if (made.shape != given.shape || made.type != given.type)
    throw pto::aten::Error("an output is " + text_of(given) + ", the result is " + text_of(made),
                           "elements are copied as they are", "pass an output like the result");
  Results none;
  call(find("copy_"), {output, result}, none);
}

inline void copy_all(const pto_aten_value& result, const pto_aten_value& output) {
  if (output.kind != PTO_ATEN_LIST) return copy(result, output);
  if (result.count != output.count)
    throw pto::aten::Error("a list of " + std::to_string(output.count) + " outputs",
                           "the result has " + std::to_string(result.count),
                           "pass an output for each");
  for (std::int64_t i = 0; i < result.count; ++i) copy(result.items[i], output.items[i]);
}

// Runs a call with outputs behind its inputs: the overload that writes them, or a checked copy.
inline void run(const Signature& one, const pto_aten_operator* op, const pto_aten_value* given,
                std::size_t n) {
  const std::size_t n_outputs = length(one.outputs), n_inputs = n - n_outputs;
  std::vector<pto_aten_value> values = arranged(one, given, n_inputs);
  if (one.out) values.insert(values.end(), given + n_inputs, given + n);
  Results results;
  call(op, values, results);
  if (one.out) return;
  for (std::size_t i = 0; i < n_outputs; ++i) copy_all(results.all[i], given[n_inputs + i]);
}

}  // namespace infini::ops::detail
