// SPDX-License-Identifier: Apache-2.0
// Linear coded: a weight of 8 or 4 bits as an operand of a product (isa/cpu/matmul_coded.hpp).
//
//     Coded weight = coded(in, PTO_MATMUL_I8);      // the tensor "weight"
//     weight.give(job, part);                       // b: inputs x some of its outputs
//     weight.give_turned(job);                      // b: outputs x inputs
//
// Thread safety: immutable once made.
#pragma once
#include <utility>

#include "pto/ops/linear_rows.hpp"

namespace {

// A dense weight of codes, cols x depth, and the factors and zeros of its groups.
struct Coded {
  using Sum = float;
  int type = PTO_MATMUL_I8;
  char* weight = nullptr;  // null: it is packed
  float* packed = nullptr;
  int64_t depth = 0, cols = 0;
  int32_t group = 0;
  pto_matmul_matrix factor = {}, zero = {};

  bool is_packed() const { return false; }  // a part widens its columns, packed or not
  void give(pto_matmul_job& job, const Rectangle& part) const {
    const int64_t first = part.col * (type == PTO_MATMUL_I8 ? depth : depth / 2);
    job.b = pto_matmul_plain(weight ? weight + first : nullptr, type, 1, depth);
    job.packed = packed;
    job.packed_first = static_cast<int32_t>(part.col);
    job.packed_cols = static_cast<int32_t>(cols);
    job.b_group = group;
    job.b_factor = from(factor, part.col);
    job.b_zero = from(zero, part.col);
  }
  // Gives all of it, turned: outputs x inputs.
  void give_turned(pto_matmul_job& job) const {
    give(job, {0, 0, 0, cols});
    std::swap(job.b.row_stride, job.b.col_stride);
    job.packed = nullptr;
  }

 private:
  static pto_matmul_matrix from(pto_matmul_matrix m, int64_t col) {
    const int64_t bytes = m.type == PTO_MATMUL_F32 ? 4 : 2;
    if (m.data) m.data = static_cast<char*>(m.data) + col * bytes;
    return m;
  }
};

// Reads the argument "weight", codes of this type.
template <class Named>
Coded coded(const Named& in, int type) {
  const pto_tensor& weight = in.tensor("weight"_arg);
  Coded found;
  found.type = type;
  found.weight = static_cast<char*>(weight.data);
  found.cols = weight.sizes[0];
  found.depth = weight.sizes[1] * (type == PTO_MATMUL_I8 ? 1 : 2);
  return found;
}
// Describes a weight of `outputs` rows of which there is only the packed copy.
template <class Named>
Coded coded_elsewhere(const Named& in, int type) {
  const pto_tensor& x = in.tensor("x"_arg);
  Coded found;
  found.type = type;
  found.cols = in.integer("outputs"_arg);
  found.depth = x.sizes[x.rank - 1];
  return found;
}

// Adds the factors and zeros of the groups of a weight of 4 bits; Grid: their type.
template <class Grid, class Named>
Coded in_groups(const Named& in, Coded weight) {
  weight.group = static_cast<int32_t>(in.integer("group"_arg));
  weight.factor = job_matrix<const Grid>(in.data("scale"_arg), weight.cols, 1);
  if (!in.is_absent("zero"_arg))
    weight.zero = job_matrix<const Grid>(in.data("zero"_arg), weight.cols, 1);
  return weight;
}

}  // namespace
