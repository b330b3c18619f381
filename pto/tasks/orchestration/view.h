// SPDX-License-Identifier: Apache-2.0
// View: a tensor of an orchestration (pto/runtime.h), or a part of one.
//
//     pto::View row = o.input(0)[3], columns = o.input(0).transpose(0, 1).slice(0, 2, 4);
//
// Shapes and strides count elements. Errors: std::runtime_error with what, why and fix.
// Invariant: a view lies inside its tensor; no call copies elements. An empty view never uses its
// strides, and its data are where those of the view lie that it was made from.
// Thread safety: values.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pto/abi/runtime_api.h"
#include "pto/base/error_message.hpp"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

// An element type, coded as in DLPack.
struct ElementType {
  uint8_t code, bits;
  bool operator==(ElementType other) const { return code == other.code && bits == other.bits; }
};
namespace element {
#define PTO_DTYPE(id, constant, name, code, bits, ...) constexpr ElementType constant{code, bits};
#include "pto/abi/dtypes.def"
}  // namespace element

using Dimensions = std::vector<int64_t>;

// A tensor or a part of one. Copies are views of the same memory.
class View {
 public:
  View() {
    static const pto_view none{};
    set(none);
  }
  explicit View(const pto_view& view) { set(view); }
  View(const View& other) { set(other.view_); }
  View& operator=(const View& other) {
    set(other.view_);
    return *this;
  }

  int rank() const { return view_.rank; }
  Dimensions shape() const { return Dimensions(view_.sizes, view_.sizes + view_.rank); }
  Dimensions strides() const { return Dimensions(view_.strides, view_.strides + view_.rank); }
  ElementType dtype() const { return {view_.type_code, view_.type_bits}; }
  int64_t numel() const {
    const int64_t n = product(view_.sizes, size_t(view_.rank));
    if (n < 0)
      refuse("numel() of a view of the shape " + text(shape()),
             "the number of its elements leaves 64 bits", "take a part of it first");
    return n;
  }
  const pto_view& raw() const { return view_; }

  // Takes the elements begin, begin + step ... before end of dimension dim; a negative dim counts
  // from the end.
  View slice(int dim, int64_t begin, int64_t end, int64_t step = 1) const {
    View v = *this;
    dim = checked(dim);
    const int64_t size = view_.sizes[dim];
    if (begin < 0 || end < begin || end > size || step < 1)
      refuse("slice(" + std::to_string(dim) + ", " + std::to_string(begin) + ", " +
                 std::to_string(end) + ", " + std::to_string(step) + ") of " +
                 std::to_string(size) + " elements",
             "0 <= begin <= end <= size, and step >= 1", "pass bounds inside the dimension");
    const int64_t taken = end - begin;
    v.view_.sizes[dim] = taken / step + (taken % step != 0);
    if (v.view_.sizes[dim] > 1) v.view_.strides[dim] *= step;
    if (!v.is_empty()) v.advance(begin * view_.strides[dim]);
    return v;
  }
  // Takes element `index` of the first dimension; the result has one dimension fewer.
  View operator[](int64_t index) const {
    const int64_t size = view_.sizes[checked(0)];
    if (index < 0 || index >= size)
      refuse("[" + std::to_string(index) + "] of " + std::to_string(size) + " elements",
             "an index is at least 0 and less than the size", "pass one inside the dimension");
    return slice(0, index, index + 1).without(0);
  }

  View transpose(int a, int b) const {
    View v = *this;
    a = checked(a), b = checked(b);
    std::swap(v.view_.sizes[a], v.view_.sizes[b]);
    std::swap(v.view_.strides[a], v.view_.strides[b]);
    return v;
  }
  View permute(const std::vector<int>& order) const {
    View v = *this;
    std::vector<bool> seen(size_t(view_.rank));
    bool is_right = int(order.size()) == view_.rank;
    for (size_t k = 0; is_right && k < order.size(); ++k) {
      const int from = order[k] < 0 ? order[k] + view_.rank : order[k];
      is_right = from >= 0 && from < view_.rank && !seen[size_t(from)];
      if (!is_right) break;
      seen[size_t(from)] = true;
      v.view_.sizes[k] = view_.sizes[from];
      v.view_.strides[k] = view_.strides[from];
    }
    if (!is_right)
      refuse("permute() of " + std::to_string(view_.rank) + " dimensions by " +
                 std::to_string(order.size()) + " numbers that do not name each once",
             "permute() names every dimension once", "pass a permutation of 0 .. rank - 1");
    return v;
  }
  // Gives the same elements another shape; throws if that would need a copy.
  View reshape(const Dimensions& shape) const {
    bool is_right = shape.size() <= PTO_MAX_RANK;
    for (int64_t size : shape) is_right = is_right && size >= 0;
    if (!is_right || product(shape.data(), shape.size()) != numel())
      refuse("reshape() of " + std::to_string(numel()) + " elements to " + text(shape),
             "a reshape keeps the number of elements, in at most " + std::to_string(PTO_MAX_RANK) +
                 " dimensions of at least 0",
             "pass a shape with the same number of elements");
    View v = *this;
    v.view_.rank = int32_t(shape.size());
    int64_t next = is_contiguous() ? 1 : single_stride();
    for (int k = v.view_.rank - 1; k >= 0; --k) {
      v.view_.sizes[k] = shape[size_t(k)];
      v.view_.strides[k] = next;
      if (calculate(DimOp::Mul, next, shape[size_t(k)], &next) != SizeFault::None) next = 0;
    }
    return v;
  }

 private:
  // Copies only the sizes and strides within the rank; the arrays are most of a view.
  void set(const pto_view& view) {
    view_.allocation = view.allocation;
    view_.data = view.data;
    view_.rank = view.rank;
    view_.type_code = view.type_code;
    view_.type_bits = view.type_bits;
    view_.flags = view.flags;
    if (view.rank > 0) set_dim(0, view);
    if (view.rank > 1) set_dim(1, view);  // a loop compiles to two calls of memcpy()
    for (int k = 2; k < view.rank; ++k) set_dim(k, view);
  }
  void set_dim(int k, const pto_view& view) {
    view_.sizes[k] = view.sizes[k];
    view_.strides[k] = view.strides[k];
  }
  static void refuse(const std::string& what, const std::string& why, const char* fix) {
    throw std::runtime_error(error_message(what, why, fix));
  }
  // Returns 0 where a size is 0, and -1 where the product leaves 64 bits.
  static int64_t product(const int64_t* sizes, size_t rank) {
    int64_t n = 1;
    bool fits = true;
    for (size_t k = 0; k < rank; ++k) {
      if (sizes[k] == 0) return 0;
      fits = fits && calculate(DimOp::Mul, n, sizes[k], &n) == SizeFault::None;
    }
    return fits ? n : -1;
  }
  static std::string text(const Dimensions& shape) {
    std::string list;
    for (int64_t size : shape) list += (list.empty() ? "" : ", ") + std::to_string(size);
    return "[" + list + "]";
  }
  bool is_empty() const { return product(view_.sizes, size_t(view_.rank)) == 0; }
  int checked(int dim) const {
    const int at = dim < 0 ? dim + view_.rank : dim;
    if (at < 0 || at >= view_.rank)
      refuse("dimension " + std::to_string(dim) + " of a tensor of " + std::to_string(view_.rank),
             "dimensions count from 0, or from the end from -1", "pass one that exists");
    return at;
  }
  void advance(int64_t elements) {
    view_.data = static_cast<char*>(view_.data) + elements * (view_.type_bits / 8);
  }
  View without(int dim) const {
    View v = *this;
    for (int k = dim; k + 1 < view_.rank; ++k) {
      v.view_.sizes[k] = view_.sizes[k + 1];
      v.view_.strides[k] = view_.strides[k + 1];
    }
    --v.view_.rank;
    return v;
  }
  bool is_contiguous() const {
    if (is_empty()) return true;
    int64_t next = 1;
    for (int k = view_.rank - 1; k >= 0; next *= view_.sizes[k--])
      if (view_.sizes[k] != 1 && view_.strides[k] != next) return false;
    return true;
  }
  // Returns the stride between consecutive elements; throws unless all are equally far apart.
  int64_t single_stride() const {
    int64_t stride = 0, next = 0;
    for (int k = view_.rank - 1; k >= 0; --k) {
      if (view_.sizes[k] == 1) continue;
      if (stride == 0) stride = next = view_.strides[k];
      if (view_.strides[k] != next)
        refuse("reshape() of a view whose elements do not lie evenly",
               "it would need a copy, and a view never copies",
               "submit a task that copies the view, and reshape the copy");
      next *= view_.sizes[k];
    }
    return stride;
  }

  pto_view view_;
};

}  // namespace pto
