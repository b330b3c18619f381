// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/infer_shapes.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "pto/adapters/onnxruntime/attributes.hpp"
#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/base/error.hpp"
#include "pto/operators/plain_sizes.hpp"

namespace pto::ort {
namespace {

struct Size {
  int64_t number = -1;  // -1: not known
  std::string name;

  bool is_known() const { return number >= 0; }
  bool is_same(const Size& other) const {
    return is_known() ? number == other.number : !name.empty() && name == other.name;
  }
};

// Values on the way may be negative, so an expression keeps whether it is known apart.
struct Expression {
  Size size;
  bool is_known = false;
  int64_t value = 0;

  static Expression of(const Size& size) { return {size, size.is_known(), size.number}; }
  static Expression of(int64_t value) { return {{value, ""}, true, value}; }
};

class Evaluation {
 public:
  Evaluation(const pto_operator& op, const pto_shapes& shapes, const std::vector<Size>& symbols)
      : op_(op) {
    for (int32_t i = 0; i < shapes.n_dims; ++i) {
      const pto_dim& dim = shapes.dims[i];
      if (dim.op == PTO_DIM_CONSTANT) {
        values_.push_back(Expression::of(dim.value));
      } else if (dim.op == PTO_DIM_SYMBOL) {
        values_.push_back(Expression::of(symbols.at(static_cast<size_t>(dim.value))));
      } else {
        values_.push_back(combine(shapes, i));
      }
    }
    for (int32_t i = 0; i < shapes.n_guards; ++i) require_equal(shapes.guards[i]);
  }

  Size size(int32_t dim) const {
    const Expression& e = at(dim);
    return e.is_known ? Size{e.value, ""} : Size{-1, e.size.name};
  }

 private:
  const Expression& at(int32_t dim) const { return values_.at(static_cast<size_t>(dim)); }

  Expression combine(const pto_shapes& shapes, int32_t place) const {
    const pto_dim& dim = shapes.dims[place];
    const Expression &a = at(dim.left), &b = at(dim.right);
    if (dim.op == PTO_DIM_BROADCAST) return broadcast(a, b);
    if (!a.is_known || !b.is_known) return {};
    int64_t size = 0;
    const std::string wrong = evaluate_size(shapes, place, a.value, b.value, &size);
    if (wrong.empty()) return Expression::of(size);
    fail({std::string(op_.name) + ": " + wrong,
          "sizes are signed 64-bit numbers, and divisors are not 0",
          "correct the shapes in the model"});
  }

  Expression broadcast(const Expression& a, const Expression& b) const {
    if (a.is_known && a.value == 1) return b;
    if (b.is_known && b.value == 1) return a;
    if (a.is_known && b.is_known && a.value != b.value) refuse(a.value, b.value, "broadcasting");
    if (a.is_known) return a;
    if (b.is_known) return b;
    return a.size.is_same(b.size) ? a : Expression{};
  }

  void require_equal(const pto_shape_guard& guard) const {
    const Expression &a = at(guard.left), &b = at(guard.right);
    if (a.is_known && b.is_known && a.value != b.value) refuse(a.value, b.value, guard.because);
  }

  [[noreturn]] void refuse(int64_t a, int64_t b, const std::string& because) const {
    fail({std::string(op_.name) + ": sizes " + std::to_string(a) + " and " + std::to_string(b) +
              " differ in " + because,
          "they must be equal, or one of them 1 where shapes broadcast",
          "correct the shapes in the model"});
  }

  const pto_operator& op_;
  std::vector<Expression> values_;
};

using OwnedInfo =
    std::unique_ptr<TensorInfo,
                    decltype([](TensorInfo* info) { api::ReleaseTensorTypeAndShapeInfo(info); })>;

// The inputs of a node, as far as their ranks are known.
struct Inputs {
  std::vector<pto_operator_tensor> tensors;
  std::vector<int32_t> counts;
  std::vector<Size> symbols;

  // False where a rank is unknown.
  bool take(const ShapeContext* context, size_t place) {
    TensorInfo* info = nullptr;
    if (!succeeded(api::ShapeInferContext_GetInputTypeShape(context, place, &info)) || !info) {
      return true;  // absent
    }
    if (!api::TensorTypeAndShape_HasShape(info)) return false;
    int element = 0;
    size_t rank = 0;
    check(api::GetTensorElementType(info, &element));
    check(api::GetDimensionsCount(info, &rank));
    std::vector<int64_t> sizes(rank);
    std::vector<const char*> names(rank, nullptr);
    if (rank > 0) check(api::GetDimensions(info, sizes.data(), rank));
    if (rank > 0) check(api::GetSymbolicDimensions(info, names.data(), rank));
    for (size_t axis = 0; axis < rank; ++axis) {
      symbols.push_back({sizes[axis], names[axis] ? names[axis] : ""});
    }
    tensors.push_back({nullptr, nullptr, nullptr, static_cast<int32_t>(rank), dtype_of(element)});
    return dtype_of(element) >= 0;
  }

  bool take_all(const pto_operator& op, const ShapeContext* context) {
    size_t count = 0, place = 0;
    check(api::ShapeInferContext_GetInputCount(context, &count));
    for (int32_t i = 0; i < op.n_arguments; ++i) {
      if (!is_tensor(op.arguments[i].kind)) continue;
      const size_t before = tensors.size();
      const bool is_list = op.arguments[i].kind == PTO_KIND_TENSOR_LIST;
      const size_t last = is_list ? count : std::min(count, place + 1);
      for (; place < last; ++place) {
        if (!take(context, place)) return false;
      }
      counts.push_back(static_cast<int32_t>(tensors.size() - before));
    }
    return true;
  }
};

void set_output(ShapeContext* context, size_t place, int dtype, const std::vector<Size>& sizes) {
  TensorInfo* made = nullptr;
  check(api::CreateTensorTypeAndShapeInfo(&made));
  const OwnedInfo info(made);
  std::vector<int64_t> numbers;
  std::vector<const char*> names;
  for (const Size& size : sizes) {
    numbers.push_back(size.number);
    names.push_back(size.name.c_str());
  }
  check(api::SetTensorElementType(made, element_of(dtype)));
  check(api::SetDimensions(made, numbers.data(), numbers.size()));
  check(api::SetSymbolicDimensions(made, names.data(), names.size()));
  check(api::ShapeInferContext_SetOutputTypeShape(context, place, made));
}

}  // namespace

void infer_shapes(const pto_operator& op, ShapeContext* context) {
  Inputs inputs;
  if (!inputs.take_all(op, context)) return;
  const AttributeValues attributes = attributes_of(op, context);
  const pto_operator_call call = {
      &op,    inputs.tensors.data(), inputs.counts.data(), attributes.data(), nullptr, nullptr,
      nullptr};
  const pto_shapes* shapes = pto_operator_shapes(&call);
  if (!shapes) throw std::runtime_error(pto_operator_error());
  for (int32_t i = 0, a = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i].kind)) continue;
    const pto_operator_value& value = attributes.data()[a++];
    if (op.arguments[i].kind == PTO_KIND_SYMINT) inputs.symbols.push_back({value.integer, ""});
  }
  const Evaluation evaluation(op, *shapes, inputs.symbols);
  for (int32_t i = 0; i < shapes->n_tensors; ++i) {
    std::vector<Size> sizes;
    for (int32_t axis = 0; axis < shapes->tensors[i].rank; ++axis) {
      sizes.push_back(evaluation.size(shapes->tensors[i].sizes[axis]));
    }
    // Of one that is bounded only a run knows the first size.
    if (op.outputs[std::min(i, op.n_outputs - 1)].is_bounded) sizes[0] = {};
    set_output(context, static_cast<size_t>(i), shapes->tensors[i].dtype, sizes);
  }
}

}  // namespace pto::ort
