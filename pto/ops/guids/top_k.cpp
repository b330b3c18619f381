// SPDX-License-Identifier: Apache-2.0
// Guid topk_DTYPE: x -> (values, indices), the largest elements along an axis, largest first, with
// the indices at which they stood, of type i64 or i32.
//
// params: { uint32 k, axis; uint8 smallest; }, where axis 0 is the innermost one; with `smallest`
// the smallest elements, smallest first. NaN counts as larger than all numbers; of equal elements
// the first one comes first.
#include <algorithm>
#include <cstring>

#include "pto/abi/guid.h"
#include "pto/ops/guids/typed.hpp"

namespace pto::guids {
namespace {

struct TopK {
  uint32_t k, axis;
  uint8_t smallest;
};

struct Item {
  double value;
  int64_t index;
};

bool is_larger(double a, double b) { return a > b || (a != a && b == b); }

// A block of the tensor around the axis: outer x length x inner.
struct Lines {
  int64_t length, inner, count;
};

template <class T, class I>
struct TopKKernel {
  static int32_t run(const pto_args* args) {
    const KernelArguments in(args);
    if (in.tensors() != 3 || !has_type<T>(in.tensor(0)) || !has_type<T>(in.tensor(1)) ||
        !has_type<I>(in.tensor(2)) || args->params_bytes < static_cast<int64_t>(sizeof(TopK))) {
      return refuse(in, "it takes one tensor and gives two: values of its type, and indices",
                    "the indices are int64 or int32; k and the axis stand in params",
                    "describe those outputs, and fill synBeamParams");
    }
    TopK wanted;
    std::memcpy(&wanted, args->params, sizeof wanted);
    const pto_tensor& x = in.tensor(0);
    if (wanted.axis >= static_cast<uint32_t>(x.rank)) {
      return refuse(in, "the axis is not one of the tensor's",
                    "axes count from the innermost one, 0", "pass rank - 1 - axis");
    }
    const int32_t axis = x.rank - 1 - static_cast<int32_t>(wanted.axis);
    Lines lines{x.sizes[axis], 1, 1};
    for (int32_t i = axis + 1; i < x.rank; ++i) lines.inner *= x.sizes[i];
    lines.count = lines.inner;
    for (int32_t i = 0; i < axis; ++i) lines.count *= x.sizes[i];
    const int64_t k = wanted.k;
    if (k > lines.length || in.tensor(1).rank != x.rank || in.tensor(1).sizes[axis] != k ||
        elements(in.tensor(1)) != lines.count * k || !has_sizes_of(in.tensor(1), in.tensor(2))) {
      return refuse(in, "k or the sizes of its outputs do not fit the tensor",
                    "k is at most the size of the axis, and the outputs have k in its place",
                    "pass a smaller k, or correct the shape callback");
    }
    if (static_cast<I>(lines.length) < lines.length) {
      return refuse(in, "the indices are int32, and the axis has more elements than they count",
                    "int32 counts to 2147483647", "describe the indices as int64");
    }
    return select(in, lines, k, wanted.smallest != 0);
  }

  static int32_t select(const KernelArguments& in, const Lines& lines, int64_t k, bool smallest) {
    auto* items = static_cast<Item*>(in.scratch(sizeof(Item) * static_cast<size_t>(lines.length)));
    if (!items && lines.length > 0) return in.fail("no memory for a line of the tensor");
    const auto before = [smallest](const Item& a, const Item& b) {
      if (smallest ? is_larger(b.value, a.value) : is_larger(a.value, b.value)) return true;
      if (smallest ? is_larger(a.value, b.value) : is_larger(b.value, a.value)) return false;
      return a.index < b.index;
    };
    const auto mine = in.items(lines.count);
    for (int64_t line = mine.first; line < mine.last; ++line) {
      const int64_t outer = line / lines.inner, inner = line % lines.inner;
      const T* x = in.data<const T>(0) + outer * lines.length * lines.inner + inner;
      for (int64_t i = 0; i < lines.length; ++i) {
        items[i] = {static_cast<double>(x[i * lines.inner]), i};
      }
      std::partial_sort(items, items + k, items + lines.length, before);
      const int64_t to = outer * k * lines.inner + inner;
      for (int64_t i = 0; i < k; ++i) {
        in.data<T>(1)[to + i * lines.inner] = x[items[i].index * lines.inner];
        in.data<I>(2)[to + i * lines.inner] = static_cast<I>(items[i].index);
      }
    }
    return 0;
  }
};

// The index type is that of the second output.
template <class T>
int32_t top_k(const pto_args* args) {
  const bool is_narrow = args->n_tensors == 3 && has_type<int32_t>(args->tensors[2]);
  return is_narrow ? TopKKernel<T, int32_t>::run(args) : TopKKernel<T, int64_t>::run(args);
}

PTO_GUID("topk_f32", top_k<float>, PTO_GUID_SPLITS)
PTO_GUID("topk_bf16", top_k<isa::bfloat16_t>, PTO_GUID_SPLITS)
PTO_GUID("topk_f16", top_k<isa::half>, PTO_GUID_SPLITS)
PTO_GUID("topk_f64", top_k<double>, PTO_GUID_SPLITS)
PTO_GUID("topk_i32", top_k<int32_t>, PTO_GUID_SPLITS)

}  // namespace
}  // namespace pto::guids
