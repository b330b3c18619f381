// SPDX-License-Identifier: Apache-2.0
// Products by packed copies of tensors: the bits of products by the tensors themselves.
#include "pto/isa/cpu/packed_right.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "pto/abi/program.h"
#include "pto/isa/cpu/element_types.hpp"
#include "pto/isa/cpu/packed_strips.hpp"
#include "tests/deep.hpp"

namespace pto::packed_right_test {
namespace {

using Random = std::mt19937;
int64_t below(Random& random, int64_t limit) { return static_cast<int64_t>(random() % limit); }

struct ElementType {
  uint8_t code, bits;
};
constexpr ElementType kTypes[] = {{kFloat, 32}, {kFloat, 16}, {kBfloat, 16}, {kInt, 8}};

// A tensor of random small numbers, whose axes lie in memory in any order.
struct Elements {
  Elements(Random& random, ElementType type, std::vector<int64_t> shape, bool any_order)
      : sizes(std::move(shape)), strides(sizes.size()) {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0u);
    if (any_order) std::shuffle(order.begin(), order.end(), random);
    int64_t count = 1;
    for (size_t i = order.size(); i-- > 0; count *= sizes[order[i]] + (any_order ? 1 : 0))
      strides[order[i]] = count;
    memory.resize(static_cast<size_t>(count) * type.bits / 8);
    tensor = {memory.data(),
              sizes.data(),
              strides.data(),
              static_cast<int32_t>(sizes.size()),
              type.code,
              type.bits,
              1,
              0,
              -1};
    with_type(tensor, [&](auto* to) {
      for (int64_t i = 0; i < count; ++i)
        to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(
            static_cast<float>(below(random, 256) - 128) / (type.code == kInt ? 1 : 64));
    });
  }
  std::vector<int64_t> sizes, strides;
  std::vector<char> memory;
  pto_tensor tensor;
};

// A packed copy of a tensor.
struct Copy {
  Copy(const pto_tensor& tensor, int32_t depth_axis, int32_t col_axis) {
    record = {PTO_PACKED_RIGHT_TAG,   tensor,  depth_axis, col_axis,
              pto_matmul_precision(), nullptr, 0};
    record.matrix_bytes = pto_packed_right_bytes(&record);
    int64_t matrices = 1;
    for (int32_t axis = 0; axis < tensor.rank; ++axis)
      if (axis != depth_axis && axis != col_axis) matrices *= tensor.sizes[axis];
    memory.resize(static_cast<size_t>(matrices * record.matrix_bytes) + 64);
    const uintptr_t first = reinterpret_cast<uintptr_t>(memory.data());
    record.data = memory.data() + (64 - first % 64) % 64;
    EXPECT_EQ(pto_pack_right(&record), 0);
  }
  std::vector<char> memory;
  pto_packed_right record;
};

// The part of a tensor from some indices on; axes `down` and `across` come last.
struct Part {
  Part(const pto_tensor& from, const std::vector<int32_t>& axes, const std::vector<int64_t>& first,
       std::vector<int64_t> extents)
      : sizes(std::move(extents)) {
    int64_t place = 0;
    for (size_t axis = 0; axis < first.size(); ++axis) place += first[axis] * from.strides[axis];
    for (const int32_t axis : axes) strides.push_back(from.strides[axis]);
    tensor = from;
    tensor.data = static_cast<char*>(from.data) + place * (from.type_bits / 8);
    tensor.sizes = sizes.data(), tensor.strides = strides.data();
    tensor.rank = static_cast<int32_t>(axes.size());
  }
  std::vector<int64_t> sizes, strides;
  pto_tensor tensor;
};

// The bytes of a b; `narrow`: floats of the operands' type.
std::vector<char> product(const pto_tensor& a, const pto_tensor& b, const pto_packed_right* packed,
                          bool narrow, int threads) {
  std::vector<int64_t> sizes(b.sizes, b.sizes + b.rank), strides(sizes.size());
  sizes[sizes.size() - 2] = a.sizes[a.rank - 2];
  int64_t count = 1;
  for (size_t i = sizes.size(); i-- > 0; count *= sizes[i]) strides[i] = count;
  pto_tensor c = a;
  if (!narrow) c.type_code = a.type_code == kInt ? kInt : kFloat, c.type_bits = 32;
  std::vector<char> made(static_cast<size_t>(count * c.type_bits / 8));
  c.data = made.data(), c.sizes = sizes.data(), c.strides = strides.data(), c.rank = b.rank;
  EXPECT_EQ(pto_multiply(nullptr, "", &c, &a, &b, 0, packed, nullptr, nullptr, threads), 0);
  return made;
}

// A weight of matrices, in front of which other axes count, and what a program reads of it.
struct Case {
  Case(Random& random, ElementType type, bool any_order)
      : depth(1 + below(random, 90)), cols(1 + below(random, 1500)) {
    const auto rank = 2 + static_cast<int32_t>(below(random, 3));
    for (int32_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
    std::shuffle(axes.begin(), axes.end(), random);
    std::vector<int64_t> shape(axes.size());
    for (const int32_t axis : axes) shape[static_cast<size_t>(axis)] = 1 + below(random, 3);
    shape[static_cast<size_t>(down())] = depth;
    shape[static_cast<size_t>(across())] = cols;
    weight = std::make_unique<Elements>(random, type, shape, any_order);
  }
  int32_t down() const { return axes[axes.size() - 2]; }
  int32_t across() const { return axes.back(); }

  // Some columns, from a multiple of `step` on, of one matrix or of all along its first axis.
  Part part(Random& random, int64_t step) const {
    std::vector<int64_t> first(axes.size(), 0), sizes;
    std::vector<int32_t> kept(axes.end() - 2, axes.end());
    for (size_t i = 0; i + 2 < axes.size(); ++i) {
      const int64_t size = weight->sizes[static_cast<size_t>(axes[i])];
      if (i == 0 && random() % 2)
        kept.insert(kept.begin(), axes[i]), sizes.push_back(size);
      else
        first[static_cast<size_t>(axes[i])] = below(random, size);
    }
    const int64_t col = below(random, (cols + step - 1) / step) * step;
    first[static_cast<size_t>(across())] = col;
    sizes.push_back(depth), sizes.push_back(1 + below(random, cols - col));
    return {weight->tensor, kept, first, sizes};
  }

  int64_t depth, cols;
  std::vector<int32_t> axes;
  std::unique_ptr<Elements> weight;
};

TEST(PackedRight, a_product_has_the_bits_of_one_by_the_tensor_itself) {
  for (int seed = 0; seed < rounds_of(200, 2000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(static_cast<unsigned>(seed));
    const ElementType type = kTypes[seed % 4];
    const Case it(random, type, random() % 2 != 0);
    const Copy copy(it.weight->tensor, it.down(), it.across());
    ASSERT_GT(copy.record.matrix_bytes, 0);
    const int64_t rows = random() % 3 ? 1 + below(random, 20) : 1 + below(random, 300);
    const Elements a(random, type, {rows, it.depth}, random() % 2 != 0);
    for (const int64_t step : {32, 1}) {
      const Part b = it.part(random, step);
      const bool narrow = random() % 2 != 0;
      const int threads = 1 + static_cast<int>(random() % 2);
      const auto expected = product(a.tensor, b.tensor, nullptr, narrow, threads);
      ASSERT_EQ(product(a.tensor, b.tensor, &copy.record, narrow, threads), expected);
    }
  }
}

TEST(PackedRight, a_product_reads_nothing_of_the_tensor_that_is_packed) {
  for (const ElementType type : kTypes) {
    Random random(type.code);
    Elements w(random, type, {3, 40, 1200}, true);
    const Copy copy(w.tensor, 1, 2);
    const Elements a(random, type, {40, 40}, false);  // many rows: f32 is read packed everywhere
    const Part part(w.tensor, {0, 1, 2}, {0, 0, 32}, {3, 40, 1168});
    const auto expected = product(a.tensor, part.tensor, nullptr, false, 2);
    std::fill(w.memory.begin(), w.memory.end(), char(3));
    EXPECT_EQ(product(a.tensor, part.tensor, &copy.record, false, 2), expected);
    EXPECT_NE(product(a.tensor, part.tensor, nullptr, false, 2), expected);
  }
}

// Compares products with the strips of a packed matrix, and without packing.
void compare_strips(int32_t rows, int32_t depth) {
  constexpr int64_t kCols = 1500, kStrip = 1024;
  SCOPED_TRACE(std::to_string(rows) + " rows, depth " + std::to_string(depth));
  Random random(7);
  int engines = 0;
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine)
    for (const ElementType type : kTypes) {
      const Elements a(random, type, {rows, depth}, false), b(random, type, {depth, kCols}, false);
      std::vector<int32_t> whole(static_cast<size_t>(rows * kCols)), parts(whole.size());
      pto_matmul_job job = {};
      job.engine = engine, job.precision = PTO_MATMUL_HIGHEST;
      job.rows = rows, job.depth = depth, job.cols = kCols;
      const auto matrix = [](const void* data, int of, int64_t stride) -> pto_matmul_matrix {
        return {
            const_cast<void*>(data), of, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, stride, 1};
      };
      const int of = matmul_type(a.tensor),
                sums = type.code == kInt ? PTO_MATMUL_I32 : PTO_MATMUL_F32;
      job.a = matrix(a.tensor.data, of, depth), job.b = matrix(b.tensor.data, of, kCols);
      job.c = matrix(whole.data(), sums, kCols);
      if (pto_matmul(&job) != 0) continue;  // this CPU lacks it
      ++engines;
      std::vector<char> memory(static_cast<size_t>(strips_bytes(job, kCols, kStrip)) + 64);
      for (const bool packs : {true, false})
        for (int64_t col = 0; col < kCols; col += 256) {
          pto_matmul_job part = job;
          part.cols = static_cast<int32_t>(std::min<int64_t>(256, kCols - col));
          part.packs = packs;
          part.b.data = packs ? static_cast<char*>(b.tensor.data) + col * type.bits / 8 : nullptr;
          part.c.data = parts.data() + col;
          set_strip(&part, memory.data(), kCols, kStrip, col);
          ASSERT_EQ(pto_matmul(&part), 0);
        }
      ASSERT_EQ(parts, whole) << "engine " << engine << ", type " << of;
    }
  EXPECT_GE(engines, 4);
}

TEST(PackedRight, strips_have_the_bits_of_the_whole_on_every_engine) { compare_strips(9, 75); }

TEST(PackedRight, few_rows_have_them_in_depths_of_some_blocks) {
  for (const int32_t rows : {1, 2, 3, 5, 6}) compare_strips(rows, 2100);
}

TEST(PackedRight, a_tensor_whose_places_share_memory_is_not_packed) {
  Random random(1);
  Elements x(random, kTypes[0], {4, 40, 50}, false);
  const auto bytes = [&](const pto_tensor& tensor, int32_t depth, int32_t col) {
    const pto_packed_right record = {PTO_PACKED_RIGHT_TAG, tensor, depth, col, 1, nullptr, 0};
    return pto_packed_right_bytes(&record);
  };
  EXPECT_GT(bytes(x.tensor, 1, 2), 0);
  EXPECT_GT(bytes(x.tensor, 2, 1), 0);
  x.strides[0] = 0;
  EXPECT_EQ(bytes(x.tensor, 1, 2), 0);
  x.strides[0] = 1999;
  EXPECT_EQ(bytes(x.tensor, 1, 2), 0);
  x.strides[0] = 2000, x.strides[1] = -50;
  EXPECT_EQ(bytes(x.tensor, 1, 2), 0);
  Elements wide(random, {kFloat, 64}, {40, 50}, false), none(random, kTypes[0], {40, 0}, false);
  EXPECT_EQ(bytes(wide.tensor, 0, 1), 0);
  EXPECT_EQ(bytes(none.tensor, 0, 1), 0);
}

}  // namespace
}  // namespace pto::packed_right_test
