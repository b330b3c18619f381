// SPDX-License-Identifier: Apache-2.0
// The k largest of n numbers with their places: sort blocks of 32, then merge four sorted blocks
// into one until a single block is left. A record is a value and its index, 8 bytes.
#include "example.hpp"

using namespace pto;

constexpr int kNumbers = 4096, kTop = 64;

__global__ __aicore__ void TopK(__gm__ float* values, __gm__ uint32_t* places,
                                __gm__ const float* x) {
  Tile<TileType::Vec, float, 1, kNumbers> numbers;
  Tile<TileType::Vec, uint32_t, 1, kNumbers> indices;
  Tile<TileType::Vec, float, 1, 2 * kNumbers> records, merged;
  Tile<TileType::Vec, float, 1, kTop> best, found;

  TLOAD(numbers, GlobalTensor(x + int64_t(get_block_idx()) * kNumbers, kNumbers));
  TCI<decltype(indices), uint32_t, 0>(indices, 0);
  TSORT32(records, numbers, indices);
  // 32 records are 64 floats: blocks of 64, 256, 1024, 4096 floats become four times as long.
  for (uint32_t block = 64; block < 2 * kNumbers; block *= 4) {
    if (4 * block > 2 * kNumbers) {  // two blocks are left
      using Half = Tile<TileType::Vec, float, 1, kNumbers>;
      Half first, second;
      TSUBVIEW(first, records, 0, 0);
      TSUBVIEW(second, records, 0, kNumbers);
      MrgSortExecutedNumList taken;
      TMRGSORT<decltype(merged), decltype(records), Half, Half, false>(merged, taken, records,
                                                                       first, second);
    } else {
      TMRGSORT(merged, records, block);
    }
    TMULS(records, merged, 1.0f);
  }
  // Even places of the records hold values, odd ones indices.
  Tile<TileType::Vec, float, 1, 2 * kTop> top;
  TSUBVIEW(top, merged, 0, 0);
  TGATHER<decltype(best), decltype(top), MaskPattern::P0101>(best, top);
  // The indices move as the floats whose bits they are.
  TGATHER<decltype(found), decltype(top), MaskPattern::P1010>(found, top);
  TSTORE(GlobalTensor(values + get_block_idx() * kTop, kTop), best);
  TSTORE(GlobalTensor(reinterpret_cast<float*>(places) + get_block_idx() * kTop, kTop), found);
}

int main() {
  const int rows = 64;
  const std::vector<float> x = example::random_floats(size_t(rows) * kNumbers);
  std::vector<float> values(rows * kTop);
  std::vector<uint32_t> places(rows * kTop);
  const double taken = example::seconds(
      [&] { EXEC_KERNEL_CMD(TopK, rows, values.data(), places.data(), x.data()); });

  std::vector<double> want;
  for (int r = 0; r < rows; ++r) {
    std::vector<float> row(x.begin() + r * kNumbers, x.begin() + (r + 1) * kNumbers);
    std::sort(row.begin(), row.end(), std::greater<float>());
    want.insert(want.end(), row.begin(), row.begin() + kTop);
  }
  double worst = example::error(values, want);
  for (int i = 0; i < rows * kTop; ++i)
    if (x[size_t(i / kTop * kNumbers) + places[i]] != values[i]) worst = 1;
  return example::report("top 64 of 4096, 64 rows", worst, 0, double(x.size()), "G elements/s",
                         taken);
}
