// SPDX-License-Identifier: Apache-2.0
// Signature: the part of a call on which a kernel is specialised; the key of every kernel table.
//
//     Signature signature;
//     signature.add(tensor);   // one word: dtype, rank, which sizes are 1, stride class
//
// All other sizes are free, so one kernel serves all of them. The owner gives each set of other
// values that change the graph (constants, flags, strings) a number of its own, in `attributes`.
//
// Thread safety: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "pto/abi/limits.h"
#include "pto/base/program_spec.hpp"
#include "pto/launch/program.hpp"

namespace pto {

struct Signature {
  std::array<uint32_t, PTO_MAX_TENSORS> words{};
  uint32_t count = 0;
  uint64_t attributes = 0;

  // Throws pto::Error beyond PTO_MAX_TENSORS or PTO_MAX_RANK.
  void add(const pto_tensor_ref& tensor);
  size_t hash() const;
  friend bool operator==(const Signature&, const Signature&) = default;
};

// The content of a word.
struct TensorClass {
  DType dtype;
  int rank;
  StrideClass strides;
  uint32_t ones;  // bit d: size d is 1

  // Returns the shape to trace with: constant 1 where `ones` says so, else symbols from
  // *next_symbol on, which it advances.
  Dims symbolic_shape(int* next_symbol) const;
};

TensorClass tensor_class(uint32_t word);
TensorClass class_of(const pto_tensor_ref& tensor);
StrideClass stride_class(const int64_t* sizes, const int64_t* strides, int rank);

}  // namespace pto
