// SPDX-License-Identifier: Apache-2.0
// libpto's part of compiled programs: abi/program.h.
#include "pto/abi/program.h"

#include <string>

#include "pto/base/counterexample.hpp"
#include "pto/base/evaluate_sizes.hpp"
#include "pto/base/machine.hpp"
#include "pto/base/text.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/strided_copy.hpp"

namespace pto {
namespace {

// Reports what, why and fix, a line each, at the user's line.
int32_t report(pto_services* services, const char* where, const ErrorText& text) {
  const std::string at = *where == 0 ? "" : std::string(where) + ": ";
  return services->fail(services, (at + text.what + "\n" + text.why + "\n" + text.fix).c_str());
}

}  // namespace
}  // namespace pto

int32_t pto_blocks_of(int64_t items, int64_t bytes) {
  return pto::block_count(items, bytes, 1, pto::num_threads(), pto::machine().grain_bytes);
}

int32_t pto_launch_items(pto_kernel kernel, const pto_args* args, int64_t items, int64_t bytes,
                         int64_t written_bytes) {
  return pto_launch_blocks(kernel, args, pto_blocks_of(items, bytes), written_bytes);
}

int32_t pto_launch_blocks(pto_kernel kernel, const pto_args* args, int32_t blocks,
                          int64_t written_bytes) {
  pto_args own = *args;
  if (written_bytes >= pto::machine().stream_bytes) own.flags |= PTO_LAUNCH_STREAM;
  return pto_launch(kernel, &own, blocks);
}

void pto_copy_tensor(const pto_tensor* to, const pto_tensor* from) {
  pto::copy_strided(to->data, to->strides, from->data, from->strides, to->sizes, to->rank,
                    to->type_bits / 8);
}

int32_t pto_fail_part(pto_services* services, const char* where, const char* operation,
                      int32_t axis, int64_t offset, int64_t size, int64_t whole) {
  return pto::report(services, where, pto::outside_part(operation, axis, offset, size, whole));
}

int32_t pto_fail_size(pto_services* services, const char* where, int64_t size) {
  return pto::report(services, where,
                     {"a size is " + pto::text(size), "sizes that come from data are not negative",
                      "limit it: pto.max(n, 0)"});
}

int32_t pto_fail_sizes(pto_services* services, const char* where, const char* because, int64_t a,
                       int64_t b, int32_t kind) {
  return pto::report(services, where,
                     pto::unequal_sizes(pto::text(a), pto::text(b), because, kind));
}

int32_t pto_fail_quotient(pto_services* services, const char* where, const char* size,
                          int64_t dividend) {
  return pto::report(services, where, pto::zero_division(size, pto::text(dividend)));
}

int32_t pto_fail_check(pto_services* services, const char* where, const char* because,
                       int64_t count, const char* comparisons, const pto_tensor* sides) {
  return pto::report(
      services, where,
      pto::broken_check(because, pto::text(count), pto::counterexample(comparisons, sides)));
}

int32_t pto_fail_position(pto_services* services, const char* where, const char* operation,
                          int32_t axis, int64_t position, int64_t size, int32_t may_skip) {
  pto::report(services, where,
              {std::string(operation) + ": position " + pto::text(position) + " along axis " +
                   std::to_string(axis) + ", which has the size " + pto::text(size),
               std::string("a position is at least 0 and less than the size") +
                   (may_skip ? "; -1 writes nothing" : ""),
               "limit them: pto.clip(index, 0, n - 1)"});
  return PTO_FAILED_POSITION;
}

int32_t pto_fail_step(pto_services* services, const char* where) {
  return pto::report(
      services, where,
      {"loop: the step is 0", "a loop must come to its end", "use a positive or negative step"});
}

int32_t pto_fail_rounds(pto_services* services, const char* where, int64_t rounds) {
  return pto::report(services, where,
                     {"a loop has not ended after " + pto::text(rounds) + " rounds",
                      "a while loop ends when its condition fails, and nobody waits longer",
                      "change what the condition reads, in the body; or loop over pto.loop(n)"});
}

int32_t pto_fail_memory(pto_services* services, const char* where, int64_t bytes) {
  return pto::report(services, where,
                     {"there is no memory for a value of " + pto::text(bytes) + " bytes",
                      "the host could not allocate it", "use smaller tensors or free memory"});
}

int32_t pto_fail_product(pto_services* services, const char* where, int64_t rows, int64_t depth,
                         int64_t cols) {
  return pto::report(services, where,
                     {"matmul: [" + pto::text(rows) + ", " + pto::text(depth) + "] by [" +
                          pto::text(depth) + ", " + pto::text(cols) + "]",
                      "a product has at most 2147483647 rows, columns and terms",
                      "multiply parts of the operands: x[:n] @ y"});
}
