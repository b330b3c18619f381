// SPDX-License-Identifier: Apache-2.0
// Matmul pack: gathers parts of the operands of a product of floats into the panels that the
// innermost loops read: any layout, any element type, widened on the way.
//
//     pack_left<half>(job, panel, left);     // [units / 8][rows][8]
//     pack_right<half>(job, panel, right);   // [units][width]
//
// Invariant: only valid elements are read. Beyond them a panel holds anything, which is never
// stored.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/cpu/matmul_kernel.hpp"
#include "pto/isa/element/hifloat8.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

using Group = Vec<int32_t, kGroup>;
using LooseGroup = typename VecOf<int32_t, kGroup>::loose;

PTO_INLINE int smaller(int a, int b) { return a < b ? a : b; }
// Returns part `i` of `count` about equal parts of n.
PTO_INLINE int share(int n, int i, int count) { return int(int64_t(n) * i / count); }
PTO_INLINE int quotient_up(int a, int b) { return a / b + (a % b > 0); }  // no sum to overflow

// The offsets of an axis' lines: line i lies at(i) elements from the data.
struct Axis {
  int box, shift;
  int64_t box_stride, stride;
  PTO_INLINE int64_t at(int i) const {
    return (i >> shift) * box_stride + (i & (box - 1)) * stride;
  }
};
PTO_INLINE Axis axis(int box, int64_t box_stride, int64_t stride) {
  return {box, box > 0 ? __builtin_ctz(unsigned(box)) : 0, box_stride, stride};
}
PTO_INLINE Axis rows_of(const pto_matmul_matrix& m) {
  return axis(m.box_rows, m.box_row_stride, m.row_stride);
}
PTO_INLINE Axis cols_of(const pto_matmul_matrix& m) {
  return axis(m.box_cols, m.box_col_stride, m.col_stride);
}

// One matrix seen along the depth: `line` is a row of a or a column of b.
template <class T>
struct Operand {
  const T* data;
  Axis lines, depth;
  const uint8_t* scale;  // exponents of groups of 32 along the depth, or null
  Axis scale_lines, scale_depth;
  int end;  // of the depth

  Operand(const pto_matmul_matrix& m, const pto_matmul_matrix& scales, bool is_left, int k)
      : data(static_cast<const T*>(m.data)),
        lines(is_left ? rows_of(m) : cols_of(m)),
        depth(is_left ? cols_of(m) : rows_of(m)),
        scale(static_cast<const uint8_t*>(scales.data)),
        scale_lines(is_left ? rows_of(scales) : cols_of(scales)),
        scale_depth(is_left ? cols_of(scales) : rows_of(scales)),
        end(k) {}

  // True where groups of `count` elements along the depth lie together, each group from a multiple.
  bool has_depth_runs(int count) const { return depth.stride == 1 && depth.box % count == 0; }
  bool has_line_runs() const { return lines.stride == 1 && lines.box % kGroup == 0 && !scale; }
  // True where those of a unit of the depth lie together and count as they are.
  bool has_lines(int first, int count) const {
    return !kIsTwin<T> && lines.stride == 1 && lines.box >= first + count && !scale;
  }
  // Returns 2^(exponent - 127); 255 is NaN.
  PTO_INLINE float scale_of(int line, int k) const {
    const uint32_t e = scale[scale_lines.at(line) + scale_depth.at(k / 32)];
    return bit_cast<float>(e == 0 ? 0x400000u : e == 255 ? 0x7fc00000u : e << 23);
  }
};

// Makes eight floats from `count` elements that lie together at an offset.
template <class T>
struct Widen {
  static PTO_INLINE Group units(const T* p, int64_t offset, int count) {
    if constexpr (kIsTwin<T>) {
      return unpacked(p + offset / 2, count);
    } else {
      if (count >= kGroup) return bit_cast<Group>(lanes::load<kGroup>(p + offset));
      return bit_cast<Group>(lanes::load_part<kGroup>(p + offset, count));
    }
  }
  static PTO_INLINE Group unpacked(const T* p, int count) {
    uint32_t packed = 0;
    __builtin_memcpy(&packed, p, size_t(count >= kGroup ? 4 : (count + 1) / 2));
    const Vec<uint32_t, kGroup> shift = {0, 4, 8, 12, 16, 20, 24, 28};
    const auto codes = (lanes::splat<Vec<uint32_t, kGroup>>(packed) >> shift) & 15u;
    return bit_cast<Group>(T::Format::template decode<Vec<float, kGroup>>(codes));
  }
  static PTO_INLINE void put(int32_t* unit, const T* p, int64_t offset, float scale) {
    float value;
    if constexpr (kIsTwin<T>)
      value = offset % 2 ? p[offset / 2].second() : p[offset / 2].first();
    else
      value = float(p[offset]);
    *unit = bit_cast<int32_t>(value * scale);
  }
};

// Exchanges v[i] lane j and v[j] lane i: pairs of lanes, of pairs, of halves, one instruction per
// vector each.
PTO_INLINE void transpose(Group* v) {
  Group t[kGroup];
#define PTO_PAIRS(to, from, i, j, low, high)                         \
  to[i] = __builtin_shufflevector(from[i], from[j], PTO_UNWRAP low); \
  to[j] = __builtin_shufflevector(from[i], from[j], PTO_UNWRAP high)
#define PTO_UNWRAP(...) __VA_ARGS__
#define PTO_STAGE(to, from, a, b, c, d, e, f, g, h, low, high) \
  PTO_PAIRS(to, from, a, b, low, high);                        \
  PTO_PAIRS(to, from, c, d, low, high);                        \
  PTO_PAIRS(to, from, e, f, low, high);                        \
  PTO_PAIRS(to, from, g, h, low, high)
  PTO_STAGE(t, v, 0, 1, 2, 3, 4, 5, 6, 7, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15));
  PTO_STAGE(v, t, 0, 2, 1, 3, 4, 6, 5, 7, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15));
  PTO_STAGE(t, v, 0, 4, 1, 5, 2, 6, 3, 7, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15));
#undef PTO_STAGE
#undef PTO_UNWRAP
#undef PTO_PAIRS
  PTO_UNROLL
  for (int i = 0; i < kGroup; ++i) v[i] = t[i];
}

// The part that a panel holds: `lines` rows or columns from `line` on, `units` of depth from `k`
// on. `width` outputs lie beside each other in a panel of b. Panels are written in whole groups,
// eight units and eight columns. With integers and f64, `lines` may span several panels of b, each
// `next` bytes behind the one before.
struct Part {
  int line, lines, width, k, units;
  int64_t next = 0;
};

template <class T>
struct Packer {
  static constexpr int kAhead = 2;  // groups of depth, which lie far apart
  Operand<T> from;

  PTO_INLINE Group group(int64_t offset, int line, int k) const {
    const Group units = Widen<T>::units(from.data, offset, from.end - k);
    if (!from.scale) return units;
    using V = Vec<float, kGroup>;
    return bit_cast<Group>(bit_cast<V>(units) * lanes::splat<V>(from.scale_of(line, k)));
  }

  // True where each group from k on is whole and counts as it is.
  PTO_INLINE bool is_plain(int k) const { return !from.scale && from.end - k >= kGroup; }
  PTO_INLINE Group plain_group(int64_t offset) const {
    return Widen<T>::units(from.data, offset, kGroup);
  }

  // Takes any layout, element by element.
  void put(int32_t* unit, int line, int k) const {
    *unit = 0;
    if (k >= from.end) return;
    Widen<T>::put(unit, from.data, from.lines.at(line) + from.depth.at(k),
                  from.scale ? from.scale_of(line, k) : 1.0f);
  }

  void left(int32_t* panel, const Part& part) const {
    const bool runs = from.has_depth_runs(kGroup);
    if (!runs && from.has_lines(part.line, part.lines)) return turned(panel, part);
    int64_t offset[kRows];
    for (int r = 0; r < part.lines; ++r) offset[r] = from.lines.at(part.line + r);
    for (int k = part.k; k < part.k + part.units; k += kGroup) {
      const int64_t start = from.depth.at(k);
      if (runs && is_plain(k)) {
        const int64_t next = part.lines * from.lines.stride;
        for (int r = 0; r < part.lines; ++r, panel += kGroup) {
          __builtin_prefetch(from.data + start + offset[r] + next);
          *reinterpret_cast<LooseGroup*>(panel) = plain_group(start + offset[r]);
        }
        continue;
      }
      for (int r = 0; r < part.lines; ++r, panel += kGroup) {
        if (runs) {
          *reinterpret_cast<LooseGroup*>(panel) = group(start + offset[r], part.line + r, k);
        } else {
          for (int i = 0; i < kGroup; ++i) put(panel + i, part.line + r, k + i);
        }
      }
    }
  }

  // Packs rows of a whose columns lie together, eight at a time, the last eight perhaps twice.
  void turned(int32_t* panel, const Part& part) const {
    for (int k = part.k; k < part.k + part.units; k += kGroup, panel += part.lines * kGroup)
      for (int next = 0; next < part.lines; next += kGroup) {
        const int line = part.lines < kGroup ? 0 : smaller(next, part.lines - kGroup);
        const int64_t first = from.lines.at(part.line + line);
        Group v[kGroup];
        if (part.lines >= kGroup && from.end - k >= kGroup) {
          PTO_UNROLL
          for (int i = 0; i < kGroup; ++i) v[i] = plain_group(first + from.depth.at(k + i));
        } else {
          for (int i = 0; i < kGroup; ++i)
            v[i] = k + i < from.end ? Widen<T>::units(from.data, first + from.depth.at(k + i),
                                                      smaller(part.lines, kGroup))
                                    : Group{};
        }
        transpose(v);
        for (int r = 0; r < smaller(part.lines, kGroup); ++r)
          *reinterpret_cast<LooseGroup*>(panel + (line + r) * kGroup) = v[r];
      }
  }

  void right(int32_t* panel, const Part& part) const {
    const bool runs = from.has_depth_runs(kGroup);
    const bool across = !runs && from.has_line_runs();
    const int end = part.k + part.units;
    // Eight lines at a time: their cache lines may share a set of the first cache.
    for (int j = 0; runs && j < part.lines; j += kGroup) {
      int32_t* to = panel + j;
      const int count = smaller(part.lines - j, kGroup);
      for (int k = part.k; k < end; k += kGroup, to += kGroup * part.width)
        transposed(to, part.line + j, count, part.width, k);
    }
    for (int k = part.k; !runs && k < end; k += kGroup, panel += kGroup * part.width)
      for (int j = 0; j < part.lines; j += kGroup) {
        const int line = part.line + j, count = smaller(part.lines - j, kGroup);
        if (across && line % kGroup == 0)
          copied(panel + j, line, count, part.width, k);
        else
          for (int i = 0; i < kGroup; ++i)
            for (int c = 0; c < count; ++c) put(panel + i * part.width + j + c, line + c, k + i);
      }
  }

  PTO_INLINE void transposed(int32_t* to, int line, int count, int width, int k) const {
    const int64_t start = from.depth.at(k);
    Group v[kGroup] = {};
    const bool is_even = from.lines.box % kGroup == 0 && line % kGroup == 0;
    if (count == kGroup && is_even && is_plain(k)) {
      const int64_t first = start + from.lines.at(line);
      const int64_t next = from.depth.at(k + kAhead * kGroup) - start + first;
      for (int i = 0; i < kGroup; i += 2)
        __builtin_prefetch(from.data + next + i * from.lines.stride);
      PTO_UNROLL
      for (int i = 0; i < kGroup; ++i) v[i] = plain_group(first + i * from.lines.stride);
    } else {
      for (int i = 0; i < count; ++i) v[i] = group(start + from.lines.at(line + i), line + i, k);
    }
    transpose(v);
    PTO_UNROLL
    for (int i = 0; i < kGroup; ++i) *reinterpret_cast<LooseGroup*>(to + i * width) = v[i];
  }

  PTO_INLINE void copied(int32_t* to, int line, int count, int width, int k) const {
    const int64_t first = from.lines.at(line);
    for (int i = 0; i < kGroup && k + i < from.end; ++i)
      *reinterpret_cast<LooseGroup*>(to + i * width) =
          Widen<T>::units(from.data, first + from.depth.at(k + i), count);
  }
};

template <class T>
void pack_left(const pto_matmul_job& job, void* panel, const Part& part) {
  Packer<T>{{job.a, job.a_scale, true, job.depth}}.left(static_cast<int32_t*>(panel), part);
}
template <class T>
void pack_right(const pto_matmul_job& job, void* panel, const Part& part) {
  Packer<T>{{job.b, job.b_scale, false, job.depth}}.right(static_cast<int32_t*>(panel), part);
}

// How both operands of a product of floats are packed, for each type.
using Pack = void (*)(const pto_matmul_job&, void*, const Part&);
struct Packs {
  Pack left, right;
};
template <class T>
Packs floats_of() {
  return {pack_left<T>, pack_right<T>};
}
inline Packs floats(int type) {
  switch (type) {
    case PTO_MATMUL_F16:
      return floats_of<half>();
    case PTO_MATMUL_BF16:
      return floats_of<bfloat16_t>();
    case PTO_MATMUL_E4M3:
      return floats_of<float8_e4m3_t>();
    case PTO_MATMUL_E5M2:
      return floats_of<float8_e5m2_t>();
    case PTO_MATMUL_HIF8:
      return floats_of<hifloat8_t>();
    case PTO_MATMUL_E2M1X2:
      return floats_of<float4_e2m1x2_t>();
    case PTO_MATMUL_E1M2X2:
      return floats_of<float4_e1m2x2_t>();
    default:
      return floats_of<float>();
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
