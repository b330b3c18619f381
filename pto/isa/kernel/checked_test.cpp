// SPDX-License-Identifier: Apache-2.0
// Kernels that check themselves, in a program whose other kernels do not.
#define PTO_CHECKED
#define PTO_PORTABLE
#undef PTO_ENTER  // of a build that notes what runs
#include "pto/isa/kernel/checked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "pto/pto-inst.hpp"
#include "tests/isa_error.hpp"

namespace {

using namespace pto;  // NOLINT: as kernels are written

using Row = Tile<TileType::Vec, float, 1, 64>;
using Square = Tile<TileType::Vec, float, 16, 16>;
using AnyRow = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, 1, DYNAMIC>;

#define PTO_READS "an instruction reads the valid regions of its sources"
#define PTO_LOAD_FIRST "load or compute the tile first"
#define PTO_VIEW_LIES "a view lies within the memory that its pointer belongs to"
#define PTO_BOUND_IT \
  "bound it: GlobalTensor(pointer, count), a smaller Shape, or fewer valid rows and columns"

// Memory of known extent.
struct Memory {
  explicit Memory(size_t count) : elements(count, 1.0f) {
    pto_register_range(elements.data(), count * sizeof(float));
  }
  ~Memory() { pto_unregister_range(elements.data()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  float* data() { return elements.data(); }
  std::vector<float> elements;
};

// --- tiles that were not written

void adds_unwritten(float* out) {
  Row a, b, d;
  TLOAD(a, GlobalTensor(out, 64));
  TADD(d, a, b);
}
TEST(Checked, a_source_that_was_never_written_fails_the_launch) {
  float x[64] = {};
  EXPECT_ERROR(EXEC_KERNEL_CMD(adds_unwritten, 1, x),
               "block 0: TADD (d, a, b): source 2, a 1 x 64 tile in Vec, was never written",
               PTO_READS, PTO_LOAD_FIRST);
}

TEST(Checked, outside_a_launch_the_same_is_thrown) {
  float x[64] = {};
  EXPECT_ERROR(adds_unwritten(x),
               "TADD (d, a, b): source 2, a 1 x 64 tile in Vec, was never written", PTO_READS,
               PTO_LOAD_FIRST);
}

TEST(Checked, an_accumulator_that_was_never_written_cannot_be_added_to) {
  TileAcc<float, 16, 16> acc;
  TileLeft<float, 16, 16> left;
  TileRight<float, 16, 16> right;
  left.data()[0] = right.data()[0] = 1;  // whoever takes a pointer may write everything
  EXPECT_ERROR(TMATMUL_ACC(acc, left, right),
               "TMATMUL_ACC (c, a, b): the destination, which is added to, a 16 x 16 tile in Acc, "
               "was never written",
               PTO_READS, PTO_LOAD_FIRST);
  TMATMUL(acc, left, right);
  TMATMUL_ACC(acc, left, right);
}

TEST(Checked, a_part_that_was_not_written_is_named) {
  AnyRow a(10), d(64), few(10);
  TASSIGN<1024>(a);
  TEXPANDS(a, 1.0f);
  TADDS(few, a, 1.0f);
  a.SetValidCol(64);
  EXPECT_ERROR(TADDS(d, a, 1.0f),
               "TADDS (d, a, scalar): source 1, a 1 x 64 tile in Vec, was not written at row 0, "
               "column 16",
               PTO_READS, "load or compute all of its valid region first, or shrink it");
  AnyRow shorter(16);
  TADDS(shorter, a, 1.0f);  // reads as much as it writes
}

TEST(Checked, tiles_at_the_same_address_are_one) {
  Row a, b, d;
  TASSIGN<0>(a);
  TASSIGN<0>(b);
  TEXPANDS(a, 2.0f);
  TADD(d, a, b);
  EXPECT_EQ(d.GetValue(5), 4.0f);
  TASSIGN<4096>(b);
  EXPECT_THAT(error_of([&] { TADD(d, a, b); }), testing::HasSubstr("source 2"));
}

TEST(Checked, views_of_a_tile_share_what_is_known_of_it) {
  Square s, d, copy;
  Tile<TileType::Vec, float, 4, 16> part, sum;
  Tile<TileType::Vec, float, 1, 256> line, more;
  TSUBVIEW(part, s, 4, 0);
  TRESHAPE(line, s);
  EXPECT_THAT(error_of([&] { TADD(more, line, line); }), testing::HasSubstr("never written"));
  TEXPANDS(part, 1.0f);
  TADD(more, line, line);
  copy = s;
  TADD(d, copy, s);
  TASSIGN<8192>(s);
  TSUBVIEW(part, s, 4, 0);
  TEXPANDS(part, 1.0f);
  TADDS(sum, part, 1.0f);
  EXPECT_THAT(error_of([&] { TADDS(d, s, 1.0f); }),
              testing::HasSubstr("was not written at row 0, column 0"));
  s.data()[0] = 1.0f;  // now all of it may be
  TADDS(d, s, 1.0f);
}

void writes_then_reads(float* out) {
  Row a, d;
  TASSIGN<256>(a);
  if (get_block_idx() == 0) TEXPANDS(a, 1.0f);
  TADDS(d, a, 1.0f);
  TSTORE(GlobalTensor(out + 64 * get_block_idx(), 64), d);
}
TEST(Checked, a_block_does_not_see_what_another_left_in_the_memory_of_tiles) {
  float x[128] = {};
  EXPECT_ERROR(EXEC_KERNEL_CMD(writes_then_reads, 2, x),
               "block 1: TADDS (d, a, scalar): source 1, a 1 x 64 tile in Vec, was never written",
               PTO_READS, PTO_LOAD_FIRST);
  EXPECT_EQ(EXEC_KERNEL_CMD(writes_then_reads, 1, x), 0);
  EXPECT_EQ(x[63], 2.0f);
}

// --- regions, positions, addresses

// --- views

using Matrix = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<1, 1, 1, 20, 1>>;
using Columns = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<1, 1, 1, 1, 20>, Layout::DN>;

TEST(Checked, views_lie_within_the_memory_of_their_pointer) {
  Memory memory(316);  // 15 rows of 20, and 16 elements
  Square s;
  TLOAD(s, Matrix(memory.data()));
  EXPECT_ERROR(TLOAD(s, Matrix(memory.data() + 2)),
               "TLOAD (tile, gm): the view reaches 8 bytes beyond its memory, which has 1256 bytes "
               "from the pointer on",
               PTO_VIEW_LIES, PTO_BOUND_IT);
  EXPECT_ERROR(
      TSTORE(Columns(memory.data() + 1), s),
      "TSTORE (gm, tile): the view reaches 4 bytes beyond its memory, which has 1260 bytes "
      "from the pointer on",
      PTO_VIEW_LIES, PTO_BOUND_IT);
  EXPECT_THAT(error_of([&] { TSTORE(GlobalTensor(memory.data() + 300, 100), s); }),
              testing::HasSubstr("reaches 336 bytes beyond its memory, which has 64 bytes"));
  using Upwards = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<1, 1, 1, -20, 1>>;
  TLOAD(s, Upwards(memory.data() + 300));
  EXPECT_ERROR(TLOAD(s, Upwards(memory.data() + 290)),
               "TLOAD (tile, gm): the view begins 1200 bytes before its pointer, where its memory "
               "does not",
               PTO_VIEW_LIES, PTO_BOUND_IT);
}

TEST(Checked, what_a_smaller_valid_region_leaves_out_is_not_checked) {
  Memory memory(100);
  Tile<TileType::Vec, float, 16, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC> s(5, 16);
  TLOAD(s, Matrix(memory.data()));
  s.SetValidShape(6, 16);
  EXPECT_THAT(error_of([&] { TLOAD(s, Matrix(memory.data())); }),
              testing::HasSubstr("reaches 64 bytes beyond"));
  Memory shorter(310);
  s.SetValidShape(16, 10);
  TLOAD(s, Matrix(shorter.data()));
  s.SetValidShape(16, 11);
  EXPECT_THAT(error_of([&] { TLOAD(s, Matrix(shorter.data())); }),
              testing::HasSubstr("reaches 4 bytes beyond"));
}

TEST(Checked, tables_and_prefetches_are_views_too) {
  Memory memory(64);
  Square s;
  Tile<TileType::Vec, int32_t, 16, 16> index;
  TEXPANDS(index, 0);
  EXPECT_THAT(error_of([&] { MGATHER(s, GlobalTensor(memory.data(), 65), index); }),
              testing::HasSubstr("MGATHER (d, g, index): the view reaches 4 bytes beyond"));
  MGATHER(s, GlobalTensor(memory.data(), 64), index);
  EXPECT_THAT(error_of([&] { MSCATTER(GlobalTensor(memory.data() + 1, 64), s, index); }),
              testing::HasSubstr("MSCATTER (g, s, index): the view reaches 4 bytes beyond"));
  EXPECT_THAT(error_of([&] { TPREFETCH(s, GlobalTensor(memory.data() + 32, 64)); }),
              testing::HasSubstr("TPREFETCH (d, g): the view reaches 128 bytes beyond"));
}

// --- convolution tiles

using Image = ConvTile<TileType::Mat, float, 2 * 16 * 8 * 4, Layout::NC1HWC0,
                       ConvTileShape<DYNAMIC, 2, 4, 4, 8>>;
using Images = GlobalTensor<float, pto::Shape<1, 2, 4, 4, 8>, Stride<256, 128, 32, 8, 1>>;

TEST(Checked, the_sizes_of_a_convolution_tile_fit_its_buffer) {
  Memory memory(512);
  Image image(2);
  const GlobalTensor view(memory.data(), pto::Shape<2, 2, 4, 4, 8>(), Stride<256, 128, 32, 8, 1>());
  EXPECT_ERROR(TLOAD(image, view),
               "TLOAD (conv, gm): the sizes of a convolution tile make 512 elements, but its "
               "buffer has 256",
               "the buffer of a tile holds all of its elements",
               "give ConvTile a buffer of enough bytes, or smaller sizes");
}

TEST(Checked, a_convolution_tile_is_written_before_it_is_read) {
  Memory memory(256);
  Image image(1);
  const Images view(memory.data());
  EXPECT_THAT(error_of([&] { TSTORE(view, image); }),
              testing::HasSubstr("source 1, a 1 x 256 tile in Mat, was never written"));
  TLOAD(image, view);
  TSTORE(view, image);
  Image bound(1);
  bound.data() = memory.data();
  TSTORE(view, bound);
}

// Each rank's view is an operand of the instructions of groups.
TEST(Checked, the_view_of_each_rank_ends_within_its_memory) {
  using View = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 16>, Stride<16, 16, 16, 16, 1>>;
  Memory memory(64);
  Tile<TileType::Vec, float, 1, 16> tile, other;
  const View mine(memory.data() + 16);
  View ranks[] = {View(memory.data()), View(memory.data() + 56)};
  const auto group = comm::ParallelGroup<View>::Create(ranks, 2, 0);
  const auto beyond = testing::HasSubstr("the view reaches 32 bytes beyond");
  EXPECT_THAT(error_of([&] { comm::TBROADCAST(group, mine, tile); }), beyond);
  EXPECT_THAT(error_of([&] { comm::TGATHER(group, mine, tile); }), beyond);
  EXPECT_THAT(error_of([&] { comm::TSCATTER(group, mine, tile); }), beyond);
  EXPECT_THAT(error_of([&] { comm::TREDUCE(group, mine, tile, other, comm::ReduceOp::Sum); }),
              beyond);
  EXPECT_EQ(memory.elements, std::vector<float>(64, 1.0f)) << "nothing was written before";
  ranks[1] = View(memory.data() + 32);
  comm::TREDUCE(group, mine, tile, other, comm::ReduceOp::Sum);
  EXPECT_EQ(memory.elements[16], 2.0f);
}

TEST(Checked, the_extent_behind_a_one_argument_view_must_be_known) {
  alignas(64) float unknown[64] = {};
  Memory memory(64);
  Row row;
  TLOAD(row, GlobalTensor(unknown, 64));
  TLOAD(row, GlobalTensor(memory.data()));
  EXPECT_ERROR(TLOAD(row, GlobalTensor(unknown)),
               "TLOAD (tile, gm): nothing is known about the memory of GlobalTensor(pointer)",
               "the one-argument form ends where the registered memory of its pointer does",
               "pass a tensor or aclrtMalloc's memory to the kernel, or give the view a count");
}

TEST(Checked, a_null_pointer_is_no_memory) {
  Row row;
  float* const nothing = nullptr;
  EXPECT_ERROR(TLOAD(row, GlobalTensor(nothing, 64)),
               "TLOAD (tile, gm): the view's pointer is null",
               "an instruction reads or writes the memory of its view",
               "point the view at memory, or give it no elements");
  TLOAD(row, GlobalTensor(nothing, 0));
}

TEST(Checked, pointers_are_aligned_to_their_elements) {
  alignas(64) char bytes[512] = {};
  Row row;
  EXPECT_ERROR(TLOAD(row, GlobalTensor(reinterpret_cast<float*>(bytes + 2), 64)),
               "TLOAD (tile, gm): the view's pointer is 2 bytes behind a multiple of 4",
               "a pointer to elements is a multiple of their size",
               "view the memory as its elements");
}

TEST(Checked, pointers_of_streaming_stores_are_aligned_to_vectors) {
  alignas(64) float out[80] = {};
  Row row;
  TEXPANDS(row, 1.0f);
  TSTORE<CacheHint::Stream>(GlobalTensor(out, 64), row);
  EXPECT_EQ(error_of([&] { TSTORE<CacheHint::Stream>(GlobalTensor(out + 1, 64), row); }),
            "TSTORE (gm, tile): CacheHint::Stream, but the pointer is 4 bytes behind a multiple "
            "of " +
                std::to_string(isa::kVectorBytes) +
                "\n  why: vectors bypass the cache only where they are aligned"
                "\n  fix: store to aligned memory, or with CacheHint::Plain");
}

// --- blocks

// Blocks share elements where `share` is less than 64.
void stores_rows(float* out, uint32_t share) {
  Row row;
  TEXPANDS(row, float(get_block_idx()));
  TSTORE(GlobalTensor(out + get_block_idx() * share, 64), row);
}
TEST(Checked, blocks_that_store_to_the_same_memory_are_both_named) {
  std::vector<float> x(1024);
  const std::string error = error_of([&] { EXEC_KERNEL_CMD(stores_rows, 2, x.data(), 48); });
  const char* const rest =
      "\n  why: blocks run in any order, so that either value may remain"
      "\n  fix: give each block elements of its own, wait between the stores, or add with "
      "AtomicType::AtomicAdd";
  EXPECT_THAT(
      error,
      testing::AnyOf(std::string("block 1: TSTORE (gm, tile): byte 0 of the view was stored by "
                                 "block 0 too") +
                         rest,
                     std::string("block 0: TSTORE (gm, tile): byte 192 of the view was stored by "
                                 "block 1 too") +
                         rest));
  EXPECT_EQ(EXEC_KERNEL_CMD(stores_rows, 16, x.data(), 64), 0);
  EXPECT_EQ(x[1023], 15.0f);
}

void stores_columns(float* out) {
  Tile<TileType::Vec, float, 16, 8> s;
  TEXPANDS(s, 1.0f);
  TSTORE(GlobalTensor<float, Shape<1, 1, 1, 16, 8>, Stride<1, 1, 1, 32, 1>>(
             out + 8 * (get_block_idx() % 4)),
         s);
}
void stores_every_second(float* out) {
  Row row;
  TEXPANDS(row, float(get_block_idx()));
  TSTORE(GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 1, 2>>(out + get_block_idx()),
         row);
}
TEST(Checked, stores_between_the_rows_of_others_do_not_overlap) {
  std::vector<float> x(512);
  EXPECT_EQ(EXEC_KERNEL_CMD(stores_every_second, 2, x.data()), 0);
  EXPECT_EQ(x[127], 1.0f);
  EXPECT_EQ(EXEC_KERNEL_CMD(stores_columns, 4, x.data()), 0);
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(stores_columns, 5, x.data()); }),
              testing::HasSubstr("was stored by block"));
}

void adds_rows(float* out) {
  Row row;
  TEXPANDS(row, 1.0f);
  using View = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;
  TSTORE<Row, View, AtomicType::AtomicAdd>(View(out), row);
}
TEST(Checked, blocks_may_add_to_the_same_memory) {
  std::vector<float> x(64);
  EXPECT_EQ(EXEC_KERNEL_CMD(adds_rows, 8, x.data()), 0);
  EXPECT_EQ(x[63], 8.0f);
}

// The last block stores what the others add to.
void adds_and_stores(float* out, int count) {
  if (int(get_block_idx()) + 1 < count) return adds_rows(out);
  Row row;
  TEXPANDS(row, 1.0f);
  TSTORE(GlobalTensor(out, 64), row);
}
TEST(Checked, a_store_to_what_other_blocks_add_to_is_told) {
  std::vector<float> x(64);
  for (const int blocks : {2, 4})
    EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(adds_and_stores, blocks, x.data(), blocks); }),
                testing::HasSubstr("byte 0 of the view was stored by "));
}

void stores_in_turn(float* out) {
  Row row;
  TEXPANDS(row, float(get_block_idx()));
  if (get_block_idx() == 0) TSTORE(GlobalTensor(out, 64), row);
  SYNCALL();
  if (get_block_idx() == 1) TSTORE(GlobalTensor(out, 64), row);
}
TEST(Checked, blocks_that_wait_for_each_other_may_store_in_turn) {
  std::vector<float> x(64);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(EXEC_KERNEL_CMD(stores_in_turn, 4, x.data()), 0);
  EXPECT_EQ(x[0], 1.0f);
}

void stores_behind_a_signal(float* out, int32_t* flag) {
  Row row;
  TEXPANDS(row, float(get_block_idx()));
  if (get_block_idx() == 1) comm::TWAIT(comm::Signal(flag), 1, comm::WaitCmp::GE);
  TSTORE(GlobalTensor(out, 64), row);
  if (get_block_idx() == 0) comm::TNOTIFY(comm::Signal(flag), 1, comm::NotifyOp::Set);
}
TEST(Checked, a_signal_orders_stores) {
  std::vector<float> x(64);
  for (int i = 0; i < 50; ++i) {
    int32_t flag = 0;
    EXPECT_EQ(EXEC_KERNEL_CMD(stores_behind_a_signal, 2, x.data(), &flag), 0);
  }
  EXPECT_EQ(x[63], 1.0f);
}

void is_right(float* out, const float* x, uint32_t n) {
  const uint32_t start = get_block_idx() * 64, count = min(64u, n - start);
  AnyRow a(static_cast<int>(count)), d(static_cast<int>(count));
  TASSIGN<0>(a);
  TASSIGN<256>(d);
  TLOAD(a, GlobalTensor(x + start, count));
  TMULS(d, a, 2.0f);
  TSTORE(GlobalTensor(out + start, count), d);
}
TEST(Checked, a_right_kernel_is_silent) {
  std::vector<float> x(500, 3.0f), out(500);
  EXPECT_EQ(EXEC_KERNEL_CMD(is_right, 8, out.data(), x.data(), 500), 0);
  EXPECT_EQ(out, std::vector<float>(500, 6.0f));
}

void fails_in_block_5(float* out) {
  Row a, d;
  if (get_block_idx() != 5) TEXPANDS(a, 1.0f);
  TADDS(d, a, 1.0f);
  TSTORE(GlobalTensor(out + get_block_idx() * 64, 64), d);
}
TEST(Checked, only_the_block_that_fails_is_left) {
  std::vector<float> x(512);
  EXPECT_ERROR(EXEC_KERNEL_CMD(fails_in_block_5, 8, x.data()),
               "block 5: TADDS (d, a, scalar): source 1, a 1 x 64 tile in Vec, was never written",
               PTO_READS, PTO_LOAD_FIRST);
  EXPECT_EQ(x[0], 2.0f);
  EXPECT_EQ(x[5 * 64], 0.0f);
}

void fails_behind_a_barrier(float* out) {
  Row a, d;
  SYNCALL();
  if (get_block_idx() != 3) TEXPANDS(a, 1.0f);
  SYNCALL();
  TADDS(d, a, 1.0f);
  TSTORE(GlobalTensor(out + get_block_idx() * 64, 64), d);
  SYNCALL();
}
TEST(Checked, a_block_that_fails_on_a_fiber_ends_the_launch) {
  std::vector<float> x(512);
  EXPECT_ERROR(EXEC_KERNEL_CMD(fails_behind_a_barrier, 8, x.data()),
               "block 3: TADDS (d, a, scalar): source 1, a 1 x 64 tile in Vec, was never written",
               PTO_READS, PTO_LOAD_FIRST);
}

}  // namespace
