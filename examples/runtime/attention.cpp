// SPDX-License-Identifier: Apache-2.0
// Attention of one query over its keys, a page at a time. `sum` keeps the values of all pages so
// far, weighted by exp(score - most), and `stats` is {most, the sum of these weights}.
#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kPage = 64, kHead = 64;
using Page = Tile<TileType::Vec, float, kPage, kHead, BLayout::RowMajor, -1, kHead>;
using Column = Tile<TileType::Vec, float, kPage, 8, BLayout::RowMajor, -1, 1>;
using Row = Tile<TileType::Vec, float, 1, kHead>;
using One = Tile<TileType::Vec, float, 1, 8, BLayout::RowMajor, 1, 1>;
using PageView = Shape<1, 1, 1, DYNAMIC, kHead>;
using Steps = Stride<1, 1, 1, kHead, 1>;

// `count` tokens of the page count; the first page begins anew.
__global__ __aicore__ void AttendPage(__gm__ float* sum, __gm__ float* stats, __gm__ const float* q,
                                      __gm__ const float* k, __gm__ const float* v, int64_t count,
                                      int64_t is_first) {
  Page page(count);
  Column scores(count);
  Row query, all, part;
  One most, most_now, total, total_now, scale;

  if (is_first) {
    TEXPANDS(all, 0.0f);
    TEXPANDS(most, -1e30f);
    TEXPANDS(total, 0.0f);
  } else {
    TLOAD(all, GlobalTensor(sum, kHead));
    TLOAD(most, GlobalTensor(stats, 1));
    TLOAD(total, GlobalTensor(stats + 1, 1));
  }
  TLOAD(query, GlobalTensor(q, kHead));
  TLOAD(page, GlobalTensor<const float, PageView, Steps>(k, PageView(count)));
  TCOLEXPANDMUL(page, page, query);
  TROWSUM(scores, page);
  TMULS(scores, scores, 0.125f);  // 1 / sqrt(kHead)

  TCOLMAX(most_now, scores);
  TMAX(most_now, most_now, most);
  TEXPDIF(scale, most, most_now);
  TCOLEXPANDEXPDIF(scores, scores, most_now);
  TCOLSUM(total_now, scores);
  TMUL(total, total, scale);
  TADD(total, total, total_now);

  TLOAD(page, GlobalTensor<const float, PageView, Steps>(v, PageView(count)));
  TROWEXPANDMUL(page, page, scores);
  TCOLSUM(part, page);
  TROWEXPANDMUL(all, all, scale);
  TADD(all, all, part);
  TSTORE(GlobalTensor(sum, kHead), all);
  TSTORE(GlobalTensor(stats, 1), most_now);
  TSTORE(GlobalTensor(stats + 1, 1), total);
}
PTO_KERNEL(attend_page, AttendPage)

__global__ __aicore__ void Finish(__gm__ float* out, __gm__ const float* sum,
                                  __gm__ const float* stats) {
  Row all;
  One total;
  TLOAD(all, GlobalTensor(sum, kHead));
  TLOAD(total, GlobalTensor(stats + 1, 1));
  TROWEXPANDDIV(all, all, total);
  TSTORE(GlobalTensor(out, kHead), all);
}
PTO_KERNEL(finish, Finish)
