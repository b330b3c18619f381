// SPDX-License-Identifier: Apache-2.0
// Numbers of an element type, kept in double or int64.
//
//     round_to(DType::BF16, 1.01) == 1.0078125;
//     wrap_to(DType::I8, 200) == -56;
//
// Invariant: floats round once, from double, to nearest even, with subnormals and overflow to
// infinity; integers wrap (a u64 keeps its 64 bits in the int64).
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "pto/base/dtype.hpp"

namespace pto {

double round_to(DType dtype, double value);
int64_t wrap_to(DType dtype, int64_t value);

// Returns the distance between neighbours of the type around |value|; at least that of subnormals.
double spacing(DType dtype, double value);

// Returns the largest finite number of a float type.
double largest(DType dtype);

// Convert a float to its bits in memory, in the low bytes, and back; every NaN becomes the quiet
// one.
uint64_t bits_of(DType dtype, double value);
double from_bits(DType dtype, uint64_t bits);

// Return the smallest and the largest integer, as stored.
int64_t lowest_integer(DType dtype);
int64_t highest_integer(DType dtype);

// Converts a float to an integer: truncated; beyond the range the nearest end; NaN gives 0.
int64_t truncate_to(DType dtype, double value);

}  // namespace pto
