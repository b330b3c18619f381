// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/sync/event.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pto/isa/kernel/cores.hpp"
#include "pto/isa/kernel/kernel.hpp"
#include "pto/isa/memory/transfer.hpp"
#include "tests/isa_error.hpp"

namespace pto::event_test {
using namespace isa;

using testing::Each;
using testing::HasSubstr;

using Vec = Tile<TileType::Vec, float, 1, 64>;

// Every block writes its part, then reads all.
template <class Barrier>
int wrong_sums(Barrier barrier) {
  constexpr int kBlocks = 7;
  std::vector<float> parts(kBlocks * 64, -1.0f), sums(kBlocks * 64, -1.0f);
  run_blocks(kBlocks, [&] {
    Vec mine, sum, one;
    TASSIGN(mine, 0);  // in memory that every block has for itself
    TASSIGN(sum, 1024);
    TEXPANDS(mine, float(get_block_idx()));
    TSTORE(GlobalTensor(&parts[block_idx * 64], 64), mine);
    barrier();
    TEXPANDS(sum, 0.0f);
    for (uint32_t i = 0; i < get_block_num(); ++i) {
      TLOAD(one, GlobalTensor(&parts[i * 64], 64));
      TADD(sum, sum, one);
    }
    if (mine.GetValue(3) == float(get_block_idx()))
      TSTORE(GlobalTensor(&sums[block_idx * 64], 64), sum);
  });
  int wrong = 0;
  for (const float sum : sums) wrong += sum != 21;
  return wrong;
}

TEST(Event, every_form_of_syncall_is_a_barrier) {
  std::vector<int32_t> workspace(16);
  using Workspace = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 16>, Stride<1, 1, 1, 16, 1>>;
  EXPECT_EQ(wrong_sums([] { SYNCALL(); }), 0);
  EXPECT_EQ(wrong_sums([] { SYNCALL<SyncCoreType::AICOnly>(); }), 0);
  EXPECT_EQ(wrong_sums([] { SYNCALL<SyncCoreType::Mix>(); }), 0);
  EXPECT_EQ(wrong_sums([&] {
              SYNCALL<SyncAllMode::Soft, SyncCoreType::AIVOnly>(Workspace(workspace.data()));
            }),
            0);
  EXPECT_EQ(wrong_sums([&] {
              SYNCALL<SyncAllMode::Hard, SyncCoreType::Mix>(Workspace(workspace.data()), 7);
            }),
            0);
  EXPECT_THAT(workspace, Each(0));
  SYNCALL();  // outside launches there is nobody to wait for
}

TEST(Event, barriers_of_a_kind_of_cores_leave_the_others_alone) {
  int vectors = 0, wrong = 0;
  run_cores(
      3, 2, [] { SYNCALL<SyncCoreType::AICOnly>(); },
      [&] {
        __atomic_fetch_add(&vectors, 1, __ATOMIC_SEQ_CST);
        SYNCALL<SyncCoreType::AIVOnly>();
        if (__atomic_load_n(&vectors, __ATOMIC_SEQ_CST) != 6)
          __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
      });
  EXPECT_EQ(wrong, 0);
}

TEST(Event, cores_of_a_block_signal_each_other) {
  int results[2][2] = {}, data[2] = {}, wrong = 0;
  run_cores(
      2, 2,
      [&] {
        const uint32_t block = get_block_idx();
        for (int i = 1; i <= 8; ++i) {
          data[block] = i;
          ffts_cross_core_sync(PIPE_FIX, _getFFTSMsg(CV_CORE_SYNC, 5));
          wait_flag_dev(6);
          set_intra_block(PIPE_FIX, 2);
          set_intra_block(PIPE_FIX, 2 + 16);
          for (const int result : results[block])
            if (result != 10 * i) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        }
      },
      [&] {
        for (int i = 1; i <= 8; ++i) {
          wait_flag_dev(PIPE_V, 5);
          results[get_block_idx()][get_subblockid()] = 10 * data[get_block_idx()];
          ffts_cross_core_sync(PIPE_V, getFFTSMsg(CV_CORE_SYNC, 6));
          wait_intra_block(PIPE_V, 2);
        }
      });
  EXPECT_EQ(wrong, 0);
}

void waits_too_much() { wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID3); }
constexpr int kLineOfWait = __LINE__ - 1;

void waits_for_nothing() {
  Event<Op::TLOAD, Op::TADD> loaded;
  loaded.Wait();
}
constexpr int kLineOfEvent = __LINE__ - 2;

TEST(Event, what_is_not_set_is_an_error_with_its_line) {
  const std::string place = "event_test.cpp:";
  EXPECT_THAT(error_of([] { run_blocks(1, waits_too_much); }),
              HasSubstr(place + std::to_string(kLineOfWait) + ", which it has not set"));
  EXPECT_THAT(error_of([] { run_blocks(1, waits_for_nothing); }),
              testing::AllOf(HasSubstr("(PIPE_MTE2, PIPE_V) of an Event"),
                             HasSubstr(place + std::to_string(kLineOfEvent))));
  waits_too_much();
  waits_for_nothing();
}

TEST(Event, events_and_flags_that_match_pass) {
  std::vector<float> x(64, 2.0f);
  EXPECT_EQ(error_of([&] {
              run_blocks(2, [&] {
                Event<Op::TLOAD, Op::TADD> loaded;
                Event<Op::TADD, Op::TMUL> same_pipe;
                static_assert(decltype(same_pipe)::isSamePipe, "both run on the vector pipe");
                Vec tile;
                for (int i = 0; i < 3; ++i) {
                  loaded = TLOAD(tile, GlobalTensor(x.data(), 64));
                  TADD(tile, tile, tile, loaded);
                  TSYNC(loaded, same_pipe);
                  TSYNC<Op::TADD>();
                  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
                  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
                  pipe_barrier(PIPE_ALL);
                }
                SYNCALL();
                Event<Op::TMATMUL, Op::TADD> between = RecordEvent();
                between.Wait();
                same_pipe.Record<3>();
                same_pipe.Wait<3>();
              });
            }),
            "no error");
}

}  // namespace pto::event_test
