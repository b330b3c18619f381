// SPDX-License-Identifier: Apache-2.0
// pto_operator_shapes(): inferred shapes as plain data, kept for the life of the process.
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/base/of_process.hpp"
#include "pto/base/size_program.hpp"
#include "pto/operators/call_arguments.hpp"
#include "pto/operators/last_error.hpp"

namespace pto {
namespace {

// Converts InferredShapes to pto_shapes; equal expressions share one entry.
class PlainShapes {
 public:
  PlainShapes(const InferredShapes& from, int32_t n_symbols) : counts_(from.counts) {
    for (const InferredShapes::Tensor& tensor : from.tensors) {
      std::vector<int32_t>& sizes = sizes_.emplace_back();
      for (const Dim& size : tensor.sizes) sizes.push_back(dims_.add(size));
      tensors_.push_back({static_cast<int32_t>(tensor.dtype),
                          static_cast<int32_t>(tensor.sizes.size()), sizes.data()});
    }
    for (const SizeGuard& guard : from.guards) {
      if (!is_known(guard, n_symbols)) continue;  // data define its sizes: the kernels check it
      texts_.push_back(guard.because);
      guards_.push_back({dims_.add(guard.a), dims_.add(guard.b), static_cast<int32_t>(guard.kind),
                         texts_.back().c_str()});
    }
    if (counts_.empty()) counts_.assign(tensors_.size(), 1);
    plain = {n_symbols,
             static_cast<int32_t>(dims_.steps.size()),
             static_cast<int32_t>(guards_.size()),
             static_cast<int32_t>(tensors_.size()),
             dims_.steps.data(),
             guards_.data(),
             tensors_.data(),
             counts_.data()};
  }
  PlainShapes(const PlainShapes&) = delete;

  static bool is_known(const SizeGuard& guard, int32_t n_symbols) {
    bool known = true;
    for (const Dim* size : {&guard.a, &guard.b})
      each_symbol(*size, [&](int64_t symbol) { known = known && symbol < n_symbols; });
    return known;
  }

  pto_shapes plain;

 private:
  SizeSteps dims_;
  std::deque<std::vector<int32_t>> sizes_;
  std::deque<std::string> texts_;
  std::vector<pto_shape> tensors_;
  std::vector<pto_shape_guard> guards_;
  std::vector<int32_t> counts_;
};

std::string key_of(const pto_operator& op, const CallArguments& arguments) {
  std::string key = std::to_string(operator_at(op.index).kernels_owner) + " ";
  for (const TensorKind& kind : arguments.kinds()) {
    key += std::to_string(static_cast<int>(kind.dtype)) + "," + std::to_string(kind.rank) + " ";
  }
  return key + arguments.specialised();
}

void check_counts(const pto_operator& op, const InferredShapes& shapes) {
  size_t tensors = 0;
  for (const int32_t count : shapes.counts) tensors += static_cast<size_t>(count);
  const size_t outputs = shapes.counts.empty() ? shapes.tensors.size() : shapes.counts.size();
  const bool sums = shapes.counts.empty() || tensors == shapes.tensors.size();
  if (sums && outputs == static_cast<size_t>(op.n_outputs)) return;
  fail({std::string(op.name) + ": infer gave the shapes of " + std::to_string(outputs) +
            " outputs, but the schema has " + std::to_string(op.n_outputs),
        std::string("the schema says ") + op.schema, "give a shape for each output"});
}

struct KnownShapes {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const PlainShapes>> of;  // calls of a kind
};

const pto_shapes* shapes_of(const pto_operator_call& call) {
  auto& [mutex, known] = of_process<KnownShapes>();
  const CallArguments arguments(call, CallArguments::Reads::Kinds);
  const std::string key = key_of(*call.op, arguments);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return &found->second->plain;
  }
  arguments.check_types();
  const std::vector<TensorKind> kinds = arguments.kinds();
  const std::vector<AttributeValue> attributes = arguments.attributes();
  const InferredShapes inferred =
      infer_shapes({call.op->index, kinds, attributes, arguments.counts()});
  check_counts(*call.op, inferred);
  int32_t symbols = 0;
  for (const TensorKind& kind : kinds) symbols += kind.rank;
  for (int32_t i = 0; i < call.op->n_arguments; ++i) {
    symbols += call.op->arguments[i].kind == PTO_KIND_SYMINT;
  }
  auto made = std::make_unique<const PlainShapes>(inferred, symbols);
  const std::lock_guard lock(mutex);
  return &known.emplace(key, std::move(made)).first->second->plain;
}

}  // namespace
}  // namespace pto

const pto_shapes* pto_operator_shapes(const pto_operator_call* call) {
  const pto_shapes* shapes = nullptr;
  pto::reported([&] { shapes = pto::shapes_of(*call); });
  return shapes;
}
