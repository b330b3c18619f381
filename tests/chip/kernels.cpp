// SPDX-License-Identifier: Apache-2.0
// Kernels of test_runtime_chip.py: on int64, of any strides and rank 1 or 2.
#include <time.h>

#include <pto/pto-inst.hpp>
#include <stdexcept>

namespace {

template <class F>
void for_each(const pto_tensor& t, F f) {
  const int64_t columns = t.rank == 2 ? t.sizes[1] : 1, step = t.rank == 2 ? t.strides[1] : 0;
  for (int64_t i = 0; i < t.sizes[0]; ++i)
    for (int64_t j = 0; j < columns; ++j)
      f(static_cast<uint64_t*>(t.data)[i * t.strides[0] + j * step], i, j);
}

uint64_t& at(const pto_tensor& t, int64_t i, int64_t j) {
  return static_cast<uint64_t*>(t.data)[i * t.strides[0] + (t.rank == 2 ? j * t.strides[1] : 0)];
}

}  // namespace

#define PTO_TEST_KERNEL(name) \
  extern "C" __attribute__((visibility("default"))) int32_t name(const pto_args* a)

// x = y + s
PTO_TEST_KERNEL(assign) {
  for_each(a->tensors[0],
           [&](uint64_t& x, int64_t i, int64_t j) { x = at(a->tensors[1], i, j) + a->scalars[0]; });
  return 0;
}

// x = 3 x + y + s
PTO_TEST_KERNEL(mix) {
  for_each(a->tensors[0], [&](uint64_t& x, int64_t i, int64_t j) {
    x = 3 * x + at(a->tensors[1], i, j) + a->scalars[0];
  });
  return 0;
}

// x[0] += the sum of all elements of y, z, ...
PTO_TEST_KERNEL(total) {
  for (int32_t k = 1; k < a->n_tensors; ++k)
    for_each(a->tensors[k], [&](uint64_t& y, int64_t, int64_t) { at(a->tensors[0], 0, 0) += y; });
  return 0;
}

// x[block] = block of blocks
PTO_TEST_KERNEL(blocks) {
  at(a->tensors[0], a->block, 0) = uint64_t(a->block * 100 + a->blocks);
  return 0;
}

PTO_TEST_KERNEL(fails) { return a->services->fail(a->services, "the kernel's own words"); }

PTO_TEST_KERNEL(throws) {
  if (a->n_tensors > 0) throw std::runtime_error("thrown by the kernel");
  throw 42;
}

// s milliseconds
PTO_TEST_KERNEL(sleeps) {
  const timespec time{0, long(a->scalars[0]) * 1000000};
  nanosleep(&time, nullptr);
  return 0;
}

// The bits of each scalar, as they came.
PTO_TEST_KERNEL(scalars) {
  for (int32_t k = 0; k < a->n_scalars; ++k) at(a->tensors[0], k, 0) = a->scalars[k];
  return 0;
}
