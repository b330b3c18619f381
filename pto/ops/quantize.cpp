// SPDX-License-Identifier: Apache-2.0
// Quantises weights to 4 bits, group by group.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

using Element = PTO_TYPE_0;

// The scale and zero of a group. One with a number that is not finite has a scale of NaN, so that
// what is computed with it tells; a scale that would be subnormal is 0.
struct Grid {
  float scale, zero;
};
Grid grid_of(const Element* from, int64_t count, bool is_symmetric) {
  float least = 0, most = 0;
  bool is_finite = true;
  if (!is_symmetric) least = most = float(from[0]);
  for (int64_t i = 0; i < count; ++i) {
    const float one = float(from[i]);
    is_finite = is_finite && std::isfinite(one);
    least = std::min(least, one), most = std::max(most, one);
  }
  if (!is_finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
  float scale = is_symmetric ? std::max(most / 7, least / -8) : most / 15 - least / 15;
  const float zero = is_symmetric ? 0 : least + 8 * scale;
  if (scale < std::numeric_limits<float>::min()) scale = 0;
  return {scale, zero};
}

uint8_t number_of(Element from, const Grid& grid) {
  if (!(grid.scale > 0)) return 0;
  const float number = std::nearbyint((float(from) - grid.zero) / grid.scale);
  return static_cast<uint8_t>(static_cast<int>(std::clamp(number, -8.0f, 7.0f)) & 15);
}

}  // namespace

PTO_OPERATOR_KERNEL(quantize_int4) {
  const pto_tensor& weight = in.tensor("weight"_arg);
  const int64_t cols = weight.sizes[0], depth = weight.sizes[1], group = in.integer("group"_arg);
  const bool is_symmetric = in.integer("symmetric"_arg) != 0;
  const auto* const data = static_cast<const Element*>(weight.data);
  uint8_t* const to = in.data("quantized"_arg);
  float *const scale = in.data("scale"_arg), *const zero = in.data("zero"_arg);
  const auto [first, last] = in.items(cols);
  for (int64_t col = first; col < last; ++col)
    for (int64_t k = 0; k < depth; k += group) {
      const Element* const from = data + col * depth + k;
      const Grid grid = grid_of(from, group, is_symmetric);
      scale[k / group * cols + col] = grid.scale;
      zero[k / group * cols + col] = grid.zero;
      uint8_t* const bytes = to + (col * depth + k) / 2;
      for (int64_t i = 0; i < group; i += 2)
        bytes[i / 2] =
            static_cast<uint8_t>(number_of(from[i], grid) | number_of(from[i + 1], grid) << 4);
    }
  return 0;
}
