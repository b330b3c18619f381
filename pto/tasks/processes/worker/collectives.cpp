// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/worker/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/isa/element/numeric.hpp"

namespace pto {
namespace {

using isa::bfloat16_t, isa::half;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>, float, T>;

// The type in which sums and products are formed: 64 bits without a sign for integers, whose low
// bits are then those of any, so that what overflows wraps around.
template <class T>
using Arithmetic = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return T(Arithmetic<T>(a) + Arithmetic<T>(b));
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return T(Arithmetic<T>(a) * Arithmetic<T>(b));
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

std::string text(const pto_tensor& tensor) {
  const auto type = from_dlpack(tensor.type_code, tensor.type_bits);
  std::string shape;
  for (int32_t k = 0; k < tensor.rank; ++k)
    shape += (k > 0 ? ", " : "") + std::to_string(tensor.sizes[k]);
  return std::string(type ? name(*type) : "an unknown type") + "[" + shape + "]";
}

void check_alike(std::span<const pto_tensor> tensors) {
  if (tensors.size() < 2)
    fail({"a collective got too few tensors: " + std::to_string(tensors.size()),
          "a collective writes the first tensor and reads the others", "pass at least two"});
  const pto_tensor& first = tensors[0];
  for (const pto_tensor& other : tensors.subspan(1))
    if (other.rank != first.rank || other.type_code != first.type_code ||
        other.type_bits != first.type_bits ||
        !std::equal(first.sizes, first.sizes + first.rank, other.sizes))
      fail({"a collective got " + text(first) + " and " + text(other),
            "all its tensors have one shape and element type", "reshape or convert one of them"});
}

// Calls line(offsets of the tensors in elements) for every line along the last dimension.
template <class Line>
void each_line(std::span<const pto_tensor> tensors, const Line& line) {
  const pto_tensor& first = tensors[0];
  const int32_t outer = std::max(0, first.rank - 1);
  std::vector<int64_t> at(size_t(outer), 0), offsets(tensors.size(), 0);
  for (int32_t k = 0; k < first.rank; ++k)
    if (first.sizes[k] == 0) return;
  for (;;) {
    line(offsets);
    int32_t k = outer - 1;
    for (; k >= 0; --k) {
      const bool wraps = ++at[size_t(k)] == first.sizes[k];
      for (size_t i = 0; i < tensors.size(); ++i)
        offsets[i] += tensors[i].strides[k] * (wraps ? 1 - first.sizes[k] : 1);
      if (!wraps) break;
      at[size_t(k)] = 0;
    }
    if (k < 0) return;
  }
}

int64_t item_bytes(const pto_tensor& tensor) { return std::max(1, tensor.type_bits / 8); }

void copy_lines(std::span<const pto_tensor> tensors) {
  const pto_tensor &to = tensors[0], &from = tensors[1];
  const auto item = size_t(item_bytes(to));
  const int64_t n = to.rank == 0 ? 1 : to.sizes[to.rank - 1];
  const int64_t to_step = to.rank == 0 ? 1 : to.strides[to.rank - 1],
                from_step = to.rank == 0 ? 1 : from.strides[to.rank - 1];
  each_line(tensors, [&](const std::vector<int64_t>& offsets) {
    char* const out = static_cast<char*>(to.data) + offsets[0] * int64_t(item);
    const char* const in = static_cast<const char*>(from.data) + offsets[1] * int64_t(item);
    if (to_step == 1 && from_step == 1) {
      std::memmove(out, in, size_t(n) * item);
      return;
    }
    for (int64_t j = 0; j < n; ++j)
      std::memmove(out + j * to_step * int64_t(item), in + j * from_step * int64_t(item), item);
  });
}

// Holds the tensors, where a source of which the first one overwrites elements that are yet to be
// read is a copy: it shares memory with the first one and is not the same view.
class Apart {
 public:
  explicit Apart(std::span<const pto_tensor> tensors) : tensors_(tensors.begin(), tensors.end()) {
    for (size_t i = 1; i < tensors_.size(); ++i)
      if (is_overwritten(tensors_[i])) replace(tensors_[i]);
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
  std::span<const pto_tensor> tensors() const { return tensors_; }

 private:
  struct Copy {
    std::vector<int64_t> strides;
    std::vector<char> bytes;
  };

  bool is_overwritten(const pto_tensor& from) const {
    const pto_tensor& to = tensors_[0];
    const int64_t item = item_bytes(to);
    if (!overlap(address_range(to, item), address_range(from, item))) return false;
    return from.data != to.data || !std::equal(to.strides, to.strides + to.rank, from.strides);
  }

  void replace(pto_tensor& from) {
    Copy& copy = copies_.emplace_back();
    copy.strides.resize(size_t(from.rank));
    const int64_t elements = dense_strides(from.rank, from.sizes, copy.strides.data());
    copy.bytes.resize(size_t(elements * item_bytes(from)));
    pto_tensor dense = from;
    dense.data = copy.bytes.data();
    dense.strides = copy.strides.data();
    const pto_tensor both[] = {dense, from};
    copy_lines(both);
    from = dense;
  }

  std::vector<pto_tensor> tensors_;
  std::list<Copy> copies_;
};

template <class T, class Operation>
void reduce(std::span<const pto_tensor> tensors, Operation operation) {
  const pto_tensor& to = tensors[0];
  const int64_t n = to.rank == 0 ? 1 : to.sizes[to.rank - 1];
  const auto step = [&](const pto_tensor& t) { return t.rank == 0 ? 0 : t.strides[t.rank - 1]; };
  constexpr int64_t kPiece = 256;
  each_line(tensors, [&](const std::vector<int64_t>& offsets) {
    for (int64_t begin = 0; begin < n; begin += kPiece) {
      const int64_t count = std::min(kPiece, n - begin);
      Wide<T> sum[kPiece];
      for (size_t i = 1; i < tensors.size(); ++i) {
        const int64_t stride = step(tensors[i]);
        const T* const from = static_cast<const T*>(tensors[i].data) + offsets[i] + begin * stride;
        for (int64_t j = 0; j < count; ++j) {
          const auto value = Wide<T>(from[j * stride]);
          sum[j] = i == 1 ? value : operation(sum[j], value);
        }
      }
      const int64_t stride = step(to);
      T* const out = static_cast<T*>(to.data) + offsets[0] + begin * stride;
      for (int64_t j = 0; j < count; ++j) out[j * stride] = T(sum[j]);
    }
  });
}

template <class Operation>
void reduce_any(std::span<const pto_tensor> tensors, std::span<const uint64_t>) {
  check_alike(tensors);
  const auto type = from_dlpack(tensors[0].type_code, tensors[0].type_bits);
  const auto of = [&](auto value) {
    reduce<decltype(value)>(Apart(tensors).tensors(), Operation{});
  };
  switch (type.value_or(DType::Bool)) {
#define PTO_DTYPE(id, constant, name, code, bits, type, ...) \
  case DType::id:                                            \
    if (DType::id == DType::Bool) break;                     \
    return of(type{});
#include "pto/abi/dtypes.def"
  }
  fail({"a reduction of " + text(tensors[0]), "it takes integers and floating-point numbers",
        "convert it, or copy"});
}

void copy(std::span<const pto_tensor> tensors, std::span<const uint64_t>) {
  check_alike(tensors);
  copy_lines(Apart(tensors).tensors());
}

// Signals are int32, as in the instruction set, or int64.
template <bool is_sum>
void put_number(std::span<const pto_tensor> tensors, std::span<const uint64_t> scalars) {
  const auto type =
      tensors.empty() ? std::nullopt : from_dlpack(tensors[0].type_code, tensors[0].type_bits);
  if (tensors.size() != 1 || scalars.size() != 1 || (type != DType::I32 && type != DType::I64))
    fail({"a signal " + (tensors.empty() ? std::string("without a tensor") : text(tensors[0])),
          "signals are int32 or int64", "allocate it so"});
  const auto each = [&](auto zero) {
    using T = decltype(zero);
    const pto_tensor& to = tensors[0];
    const int64_t n = to.rank == 0 ? 1 : to.sizes[to.rank - 1];
    each_line(tensors, [&](const std::vector<int64_t>& offsets) {
      for (int64_t j = 0; j < n; ++j) {
        T* const at = static_cast<T*>(to.data) + offsets[0] +
                      (to.rank == 0 ? 0 : j * to.strides[to.rank - 1]);
        if (is_sum)
          __atomic_fetch_add(at, T(scalars[0]), __ATOMIC_ACQ_REL);
        else
          __atomic_store_n(at, T(scalars[0]), __ATOMIC_RELEASE);
      }
    });
  };
  type == DType::I32 ? each(int32_t{}) : each(int64_t{});
}

}  // namespace

Collective collective_of(std::string_view name) {
  constexpr std::pair<std::string_view, Collective> kAll[] = {{"copy", copy},
                                                              {"sum", reduce_any<Sum>},
                                                              {"product", reduce_any<Product>},
                                                              {"min", reduce_any<Min>},
                                                              {"max", reduce_any<Max>},
                                                              {"add", put_number<true>},
                                                              {"set", put_number<false>}};
  std::string known;
  for (const auto& [other, function] : kAll) {
    if (other == name) return function;
    known += " " + std::string(other);
  }
  fail({"unknown collective \"" + std::string(name) + "\"",
        "a collective has the name of an operation", "use one of" + known});
}

}  // namespace pto
