// SPDX-License-Identifier: Apache-2.0
// Kernels that get raw pointers and move whole tiles, for tests/test_npu_pointers.py: what lies
// beyond the memory of a pointer must stay as it was.
#include <pto/pto-inst.hpp>

#include <exception>

using namespace pto;

namespace {

using Whole = Tile<TileType::Vec, float, 16, 256>;

// sum = left + right, in steps of a tile, also where less than a tile is left.
void add_whole_tiles(float* sum, const float* left, const float* right, int64_t length) {
  const int64_t share = (length + get_block_num() - 1) / get_block_num();
  const int64_t begin = share * get_block_idx();
  for (int64_t at = begin; at < begin + share && at < length; at += 16 * 256) {
    Whole a, b, c;
    TLOAD(a, GlobalTensor(left + at));
    TLOAD(b, GlobalTensor(right + at));
    TADD(c, a, b);
    TSTORE(GlobalTensor(sum + at), c);
  }
}

float of_nobody[16 * 256];

void fill_memory_of_nobody(float* value) {
  Whole tile;
  TEXPANDS(tile, *value);
  TSTORE(GlobalTensor(of_nobody), tile);
}

// 0, or 1 and the text in pto_last_error().
template <class Call>
int32_t caught(Call call) {
  try {
    return call();
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace

extern "C" int32_t add_raw(float* sum, const float* left, const float* right, int64_t length,
                           int32_t blocks, void* stream) {
  return caught([&] {
    if (stream == nullptr)
      return EXEC_KERNEL_CMD(add_whole_tiles, blocks, sum, left, right, length);
    return EXEC_KERNEL_ASYNC(add_whole_tiles, blocks, stream, sum, left, right, length);
  });
}

extern "C" int32_t store_unknown(float* value) {
  return caught([&] { return EXEC_KERNEL_CMD(fill_memory_of_nobody, 1, value); });
}

extern "C" int64_t extent(const void* pointer) { return pto_extent(pointer); }

// Launches from inside a kernel of the stream.
namespace {
void add_inside(float* sum, const float* left, const float* right, int64_t length) {
  if (get_block_idx() == 0) EXEC_KERNEL_CMD(add_whole_tiles, 3, sum, left, right, length);
}
}  // namespace
extern "C" int32_t add_nested(float* sum, const float* left, const float* right, int64_t length) {
  return caught([&] { return EXEC_KERNEL_CMD(add_inside, 2, sum, left, right, length); });
}

// One step too far, for the AddressSanitizer to see.
extern "C" void poke(volatile float* at) { *at = 1; }
