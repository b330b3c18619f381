// SPDX-License-Identifier: Apache-2.0
// Quantises rows to bytes. Before that, runs of a row may be rotated: multiplied by Hadamard's
// matrix, whose elements are all 1 or -1, over the root of its size. An outlier becomes many small
// numbers, so that a row's scale fits all of them; and products of rotated rows are those of the
// rows, since the matrix is orthogonal.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "pto/isa/cpu/shuffle.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

using Element = PTO_TYPE_0;
constexpr int kLanes = isa::kVectorBytes / 4;
using Floats = isa::Vec<float, kLanes>;
using Integers = isa::Vec<int32_t, kLanes>;
constexpr int32_t kMagnitude = 0x7fffffff, kInfinite = 0x7f800000;  // bits of a float

// The largest magnitude of what it has seen, by the order of bits, in which infinities and NaN come
// after all numbers.
class Largest {
 public:
  PTO_INLINE void see(Floats v) {
    const Integers seen = isa::bit_cast<Integers>(v) & kMagnitude;
    bits_ = seen > bits_ ? seen : bits_;
  }
  float value() const {
    int32_t most = 0;
    for (int lane = 0; lane < kLanes; ++lane) most = std::max(most, bits_[lane]);
    return most < kInfinite ? isa::bit_cast<float>(most) : std::numeric_limits<float>::quiet_NaN();
  }

 private:
  Integers bits_ = {};
};

constexpr uint64_t sign_of_lane(int lane, int distance) { return lane & distance ? 1u << 31 : 0; }
template <int kDistance>
constexpr uint64_t sign(int lane) {
  return sign_of_lane(lane, kDistance);
}

// (a, b) becomes (a + b, a - b), for all lanes a and b at this distance and below.
template <int kDistance>
PTO_INLINE Floats turned_within(Floats v) {
  if constexpr (kDistance == 0) {
    return v;
  } else {
    const Floats below = turned_within<kDistance / 2>(v);
    const auto signs = isa::lanes::lane_table<Integers, sign<kDistance>>();
    const auto own = isa::bit_cast<Floats>(isa::bit_cast<Integers>(below) ^ signs);
    return isa::lanes::swap_across<kDistance>(below) + own;
  }
}

// Multiplies each run of kRun numbers of a row by Hadamard's matrix. Returns the largest magnitude.
template <int kRun>
float rotate(const Element* row, int64_t count, float* to) {
  constexpr int kVectors = kRun / kLanes;
  Largest largest;
  for (int64_t at = 0; at < count; at += kRun) {
    Floats v[kVectors];
    PTO_UNROLL
    for (int i = 0; i < kVectors; ++i)
      v[i] = turned_within<kLanes / 2>(isa::lanes::load<kLanes>(row + at + i * kLanes));
    PTO_UNROLL
    for (int distance = 1; distance < kVectors; distance *= 2) {
      PTO_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        if (i & distance) continue;
        const Floats a = v[i], b = v[i + distance];
        v[i] = a + b, v[i + distance] = a - b;
      }
    }
    PTO_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      largest.see(v[i]);
      isa::lanes::store<kLanes>(to + at + i * kLanes, v[i]);
    }
  }
  return largest.value();
}

float rotate(int64_t run, const Element* row, int64_t count, float* to) {
  switch (run) {
    case 16:
      return rotate<16>(row, count, to);
    case 32:
      return rotate<32>(row, count, to);
    case 64:
      return rotate<64>(row, count, to);
    default:
      return rotate<128>(row, count, to);
  }
}

float largest_of(const Element* row, int64_t count) {
  Largest even, odd;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even.see(isa::lanes::load<kLanes>(row + i));
    odd.see(isa::lanes::load<kLanes>(row + i + kLanes));
  }
  for (; i < count; i += kLanes)
    even.see(isa::lanes::load_part<kLanes>(row + i, int(std::min<int64_t>(count - i, kLanes))));
  const float a = even.value(), b = odd.value();
  return std::isnan(a) || a > b ? a : b;
}

template <class T>
void write_bytes(const T* row, int64_t count, float factor, int8_t* to) {
  const Floats by = isa::lanes::splat<Floats>(factor);
  const auto bytes_of = [by](Floats v) {
    return isa::lanes::convert<int8_t>(isa::lanes::convert<int32_t>(isa::lanes::rint(v * by)));
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto bytes = bytes_of(isa::lanes::load<kLanes>(row + i));
    __builtin_memcpy(to + i, &bytes, kLanes);
  }
  const int left = static_cast<int>(count - i);
  const auto bytes = bytes_of(isa::lanes::load_part<kLanes>(row + i, left));
  for (int lane = 0; lane < left; ++lane) to[i + lane] = bytes[lane];
}

}  // namespace

PTO_OPERATOR_KERNEL(quantize_rows) {
  constexpr float kLeast = std::numeric_limits<float>::min();  // of scales
  const pto_tensor& x = in.tensor("x"_arg);
  const int64_t depth = x.sizes[x.rank - 1], run = in.integer("rotation"_arg);
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank; ++axis) rows *= x.sizes[axis];
  int8_t* to = in.data("quantized"_arg);
  float* const scales = in.data("scale"_arg);
  float* rotated = nullptr;
  if (run > 0) {
    rotated = static_cast<float*>(in.scratch(static_cast<size_t>(depth) * sizeof(float)));
    if (!rotated) return in.fail("quantize_rows: no memory for a row");
  }
  const float root = run > 0 ? std::sqrt(static_cast<float>(run)) : 1;
  const auto [first, last] = in.items(rows);
  const auto* from = static_cast<const Element*>(x.data) + first * depth;
  to += first * depth;
  for (int64_t row = first; row < last; ++row, from += depth, to += depth) {
    const float most = rotated ? rotate(run, from, depth, rotated) : largest_of(from, depth);
    const float scale = most / 127 / root;
    scales[row] = scale < kLeast ? 0 : scale;
    if (!(scales[row] > 0))
      std::fill_n(to, depth, int8_t(0));
    else if (rotated)
      write_bytes(rotated, depth, 127 / most, to);
    else
      write_bytes(from, depth, 127 / most, to);
  }
  return 0;
}
