// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/views.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "pto/adapters/onnxruntime/kernel.hpp"
#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto::ort {
namespace {

using Shape = std::vector<int64_t>;

struct ViewRow {
  std::string type;
  int first, last;
  View view;
};
std::deque<ViewRow>& view_rows() {
  static auto* const all = new std::deque<ViewRow>;  // kernels point into it
  return *all;
}

int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

struct Given {
  Shape shape;
  const void* data = nullptr;
  int64_t bytes = 0;
};

Given given(const KernelContext* context, size_t place) {
  const Value* value = nullptr;
  Given found;
  size_t inputs = 0, rank = 0;
  int element = 0;
  const int64_t* sizes = nullptr;
  check(api::KernelContext_GetInputCount(context, &inputs));
  if (place >= inputs) return found;
  check(api::KernelContext_GetInput(context, place, &value));
  if (!value) return found;
  check(api::GetTensorElementTypeAndShapeDataReference(value, &element, &sizes, &rank));
  check(api::GetTensorData(value, &found.data));
  found.shape.assign(sizes, sizes + rank);
  const int dtype = dtype_of(element);
  PTO_ASSERT(dtype >= 0);  // the planner takes no other
  found.bytes = count_of(found.shape) * bytes(static_cast<DType>(dtype));
  return found;
}

class ViewKernel : public KernelImplementation {
 public:
  ViewKernel(const ViewRow& row, const KernelInfo* info) : row_(row) {
    Compute = [](KernelImplementation* self, KernelContext* context) {
      return guarded([&] { static_cast<ViewKernel*>(self)->compute(context); });
    };
    Release = [](KernelImplementation* self) { delete static_cast<ViewKernel*>(self); };
    succeeded(api::KernelInfoGetAttribute_int64(info, "axis", &axis_));
    succeeded(api::KernelInfoGetAttribute_int64(info, "allowzero", &allow_zero_));
    size_t count = 0;
    if (succeeded(api::KernelInfoGetAttributeArray_int64(info, "axes", nullptr, &count))) {
      axes_.resize(count);
      if (count > 0)
        check(api::KernelInfoGetAttributeArray_int64(info, "axes", axes_.data(), &count));
    }
  }

 private:
  void compute(KernelContext* context) const {
    const Given x = given(context, 0);
    const Shape shape = viewed(x.shape, context);
    if (count_of(shape) != count_of(x.shape)) refuse(x.shape, shape);
    Value* value = nullptr;
    void* data = nullptr;
    check(api::KernelContext_GetOutput(context, 0, shape.data(), shape.size(), &value));
    check(api::GetTensorMutableData(value, &data));
    if (data != x.data && x.bytes > 0) std::memcpy(data, x.data, static_cast<size_t>(x.bytes));
  }

  [[noreturn]] void refuse(const Shape& from, const Shape& to) const {
    fail({row_.type + ": the shape " + pto::text(from) + " does not become " + pto::text(to),
          "both must have the same number of elements", "correct the shape"});
  }

  // Returns the numbers of input 1, or else of the attribute.
  Shape numbers(const KernelContext* context) const {
    const Given input = given(context, 1);
    if (!input.data && input.shape.empty()) return axes_;
    const auto* first = static_cast<const int64_t*>(input.data);
    return {first, first + count_of(input.shape)};
  }

  Shape viewed(const Shape& x, const KernelContext* context) const {
    switch (row_.view) {
      case View::Same:
        return x;
      case View::Shape:
        return reshaped(x, numbers(context));
      case View::Matrix: {
        const auto rank = static_cast<int64_t>(x.size());
        const auto at = x.begin() + std::clamp<int64_t>(axis_ < 0 ? axis_ + rank : axis_, 0, rank);
        return {count_of({x.begin(), at}), count_of({at, x.end()})};
      }
      case View::AddAxes:
        return with_axes(x, numbers(context));
      default:
        return without_axes(x, numbers(context));
    }
  }

  Shape reshaped(const Shape& x, Shape wanted) const {
    auto open = wanted.end();
    for (size_t axis = 0; axis < wanted.size(); ++axis) {
      if (wanted[axis] == 0 && allow_zero_ == 0) {
        if (axis >= x.size()) refuse(x, wanted);
        wanted[axis] = x[axis];
      }
      if (wanted[axis] != -1) continue;
      if (open != wanted.end()) refuse(x, wanted);
      open = wanted.begin() + static_cast<int64_t>(axis);
    }
    if (open == wanted.end()) return wanted;
    *open = 1;
    const int64_t rest = count_of(wanted);
    if (rest == 0) {
      *open = 0;
    } else {
      *open = count_of(x) / rest;
    }
    return wanted;
  }

  Shape with_axes(const Shape& x, const Shape& axes) const {
    const auto rank = static_cast<int64_t>(x.size() + axes.size());
    Shape result(static_cast<size_t>(rank), -1);
    for (const int64_t axis : axes) {
      if (axis < -rank || axis >= rank) refuse(x, axes);
      result[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = 1;
    }
    auto next = x.begin();
    for (int64_t& size : result) {
      if (size == -1) size = next == x.end() ? 1 : *next++;
    }
    return result;
  }

  Shape without_axes(const Shape& x, const Shape& axes) const {
    const auto rank = static_cast<int64_t>(x.size());
    Shape result;
    for (int64_t axis = 0; axis < rank; ++axis) {
      const int64_t size = x[static_cast<size_t>(axis)];
      const bool is_named = std::count(axes.begin(), axes.end(), axis) +
                                std::count(axes.begin(), axes.end(), axis - rank) >
                            0;
      const bool goes = axes.empty() ? size == 1 : is_named;
      if (goes && size != 1) refuse(x, axes);
      if (!goes) result.push_back(size);
    }
    return result;
  }

  const ViewRow& row_;
  int64_t axis_ = 1, allow_zero_ = 0;
  Shape axes_;
};

Status* create(void* row, const KernelInfo* info, KernelImplementation** made) {
  return guarded([&] { *made = new ViewKernel(*static_cast<ViewRow*>(row), info); });
}

void add_kernel(KernelRegistry* registry, ViewRow& row, const char* provider) {
  KernelDefBuilder* builder = nullptr;
  KernelDef* definition = nullptr;
  const int first = 0;
  check(api::CreateKernelDefBuilder(&builder));
  const std::unique_ptr<KernelDefBuilder,
                        decltype([](KernelDefBuilder* b) { api::ReleaseKernelDefBuilder(b); })>
      owned(builder);
  check(api::KernelDefBuilder_SetOperatorType(builder, row.type.c_str()));
  check(api::KernelDefBuilder_SetDomain(builder, ""));
  check(api::KernelDefBuilder_SetSinceVersion(builder, row.first, row.last));
  check(api::KernelDefBuilder_SetExecutionProvider(builder, provider));
  check(api::KernelDefBuilder_AddInputOutputAliases(builder, &first, &first, 1));
  check(api::KernelDefBuilder_Build(builder, &definition));
  const std::unique_ptr<KernelDef, decltype([](KernelDef* d) { api::ReleaseKernelDef(d); })> kept(
      definition);
  check(api::KernelRegistry_AddKernel(registry, definition, create, &row));
}

}  // namespace

void add_view(std::string type, int first, int last, View view) {
  view_rows().push_back({std::move(type), first, last, view});
}

const KernelRegistry* view_registry(const char* provider) {
  static std::mutex mutex;
  static KernelRegistry* registry = nullptr;
  const std::lock_guard lock(mutex);
  if (registry) return registry;
  check(api::CreateKernelRegistry(&registry));
  for (ViewRow& row : view_rows()) add_kernel(registry, row, provider);
  return registry;
}

}  // namespace pto::ort
