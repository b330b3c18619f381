// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/shared_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "pto/base/clock.hpp"
#include "pto/base/error.hpp"
#include "pto/tasks/processes/shared_ring.hpp"

namespace pto::shared_memory_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SharedHeap, blocks_are_zero_and_apart_whatever_was_freed_before) {
  const auto heap = SharedHeap::make(8 << 20);
  std::mt19937 random(1);
  std::vector<std::shared_ptr<SharedBlock>> live;
  std::vector<unsigned char> marks;
  for (int step = 0; step < 1000; ++step) {
    if (!live.empty() && (live.size() > 40 || random() % 2 == 0)) {
      const size_t i = random() % live.size();
      for (int64_t k = 0; k < live[i]->bytes(); ++k)
        ASSERT_EQ(static_cast<unsigned char>(live[i]->data()[k]), marks[i]);
      live.erase(live.begin() + std::ptrdiff_t(i));
      marks.erase(marks.begin() + std::ptrdiff_t(i));
      continue;
    }
    const int64_t bytes = random() % 5 == 0 ? 70'000 + random() % 50'000 : random() % 5'000;
    auto block = heap->allocate(bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 64, 0u);
    for (int64_t k = 0; k < bytes; ++k) ASSERT_EQ(block->data()[k], 0) << step;
    marks.push_back(static_cast<unsigned char>(1 + step % 255));
    std::memset(block->data(), marks.back(), size_t(bytes));
    live.push_back(std::move(block));
  }
  live.clear();
  EXPECT_EQ(heap->taken_bytes(), 0);
  EXPECT_EQ(heap->allocate(8 << 20)->data()[12345], 0);  // one piece again, and zero
}

TEST(SharedHeap, a_forked_process_gives_nothing_back_and_gets_nothing) {
  const auto heap = SharedHeap::make(8 << 20);
  auto first = heap->allocate(100'000), last = heap->allocate(100'000);
  std::memset(first->data(), 1, 100'000);
  std::memset(last->data(), 2, 100'000);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    first.reset();
    last.reset();
    try {
      heap->allocate(1);
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("was forked") != std::string::npos ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(first->data()[99'999], 1);
  EXPECT_EQ(last->data()[99'999], 2);
}

TEST(SharedHeap, finds_the_block_of_an_address) {
  const auto heap = SharedHeap::make(1 << 20);
  const auto a = heap->allocate(100), b = heap->allocate(100);
  EXPECT_EQ(heap->find(a->data() + 99), a);
  EXPECT_EQ(heap->find(b->data()), b);
  int mine = 0;
  EXPECT_EQ(heap->find(&mine), nullptr);
  EXPECT_EQ(heap->find(b->data() + 5000), nullptr);
}

TEST(SharedHeap, traces_blocks_that_were_there_and_those_that_come) {
  const auto heap = SharedHeap::make(1 << 20);
  auto before = heap->allocate(100), held = heap->allocate(10);
  heap->allocate(1);  // freed before the trace
  const auto start = uint64_t(now_ns());
  heap->begin_trace(4, start);
  const auto made = heap->allocate(5000);
  heap->note_first_task(*made, 3, 1);
  heap->note_first_task(*made, 4, 2);  // it has its first
  before.reset();
  RunTrace trace;
  heap->end_trace(trace);
  heap->allocate(1);  // after the trace
  sort_trace(trace);
  ASSERT_EQ(trace.memory.size(), 3u);
  const MemoryRecord &one = trace.memory[0], &two = trace.memory[1], &last = trace.memory[2];
  EXPECT_THAT((std::vector{one.bytes, two.bytes, last.bytes}), ElementsAre(100, 10, 5000));
  EXPECT_EQ(one.start_ns, 0u);
  EXPECT_EQ(two.start_ns, 0u);
  EXPECT_GE(one.end_ns, last.start_ns);
  EXPECT_LE(one.end_ns, uint64_t(now_ns()) - start);
  EXPECT_EQ(two.end_ns, MemoryRecord::kHeld);
  EXPECT_EQ(last.end_ns, MemoryRecord::kHeld);
  EXPECT_EQ(last.task, 3u);
  EXPECT_EQ(last.site, 1u);
  EXPECT_EQ(trace.memory_dropped, 0);
  heap->begin_trace(4, uint64_t(now_ns()));  // of a later run, in which no task used them yet
  RunTrace later;
  heap->end_trace(later);
  ASSERT_EQ(later.memory.size(), 2u);
  for (const MemoryRecord& still : later.memory)
    EXPECT_TRUE(still.start_ns == 0 && still.task == 0 && still.site == 0);
}

TEST(SharedHeap, keeps_the_last_blocks_that_a_trace_saw_freed) {
  const auto heap = SharedHeap::make(1 << 20);
  for (int times = 0; times < 2; ++times) {
    heap->begin_trace(4, uint64_t(now_ns()));
    for (int i = 0; i < 7; ++i) heap->allocate(i);
    RunTrace trace;
    heap->end_trace(trace);
    sort_trace(trace);
    EXPECT_EQ(trace.memory_dropped, 3);
    ASSERT_EQ(trace.memory.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(trace.memory[i].bytes, int64_t(i) + 3);
  }
}

TEST(SharedHeap, says_what_is_taken_where_it_has_no_room) {
  const auto heap = SharedHeap::make(1 << 20);
  const auto held = heap->allocate(1 << 19);
  for (int64_t bytes : {int64_t(600) << 10, int64_t(1) << 62, INT64_MAX}) {
    try {
      heap->allocate(bytes);
      ADD_FAILURE() << bytes;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("512 KB of 1 MB are taken"));
    }
  }
  EXPECT_NE(heap->allocate(400 << 10), nullptr);
}

// --- rings ---------------------------------------------------------------------------------------

struct RingMemory {
  explicit RingMemory(uint32_t capacity)
      : bytes(size_t(SharedRing::bytes_for(capacity)) + 64), capacity(capacity) {}
  SharedRing view() {
    return SharedRing(bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64),
                      capacity);
  }
  std::vector<char> bytes;
  uint32_t capacity;
};

int64_t pages_of(const SharedHeap& heap) {
  struct stat about {};
  fstat(heap.region().fd(), &about);
  return int64_t(about.st_blocks) * 512 / 4096;
}

// Bypasses a sanitizer, which would turn the signal into a report and an exit code of its own.
void write_unguarded(char* at) {
  signal(SIGBUS, SIG_DFL);
  *at = 1;
}

TEST(SharedHeap, who_writes_behind_all_blocks_dies_at_once) {
  constexpr int64_t kStep = 64 << 10;
  const auto heap = SharedHeap::make(int64_t(1) << 30);
  EXPECT_EXIT(write_unguarded(heap->region().data()), testing::KilledBySignal(SIGBUS), "");
  auto first = heap->allocate(100), second = heap->allocate(3 * kStep);
  const auto wild = [&] {
    for (char* at = second->data(); at < heap->region().data() + heap->region().bytes(); at += 64)
      write_unguarded(at);
  };
  EXPECT_EXIT(wild(), testing::KilledBySignal(SIGBUS), "");
  EXPECT_LE(pages_of(*heap) * 4096, 5 * kStep);  // what the child could reach
  second.reset();
  EXPECT_EXIT(write_unguarded(first->data() + kStep), testing::KilledBySignal(SIGBUS), "");
  second = heap->allocate(2 * kStep);
  for (int64_t i = 0; i < second->bytes(); ++i) ASSERT_EQ(second->data()[i], 0) << i;
}

TEST(SharedHeap, gives_back_what_was_written_where_no_block_lies) {
  const auto heap = SharedHeap::make(int64_t(1) << 26);
  std::vector<std::shared_ptr<SharedBlock>> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(heap->allocate(1 << 20));
  char* const hole = blocks[1]->data();
  blocks[1].reset();
  std::memset(blocks[2]->data(), 7, 1 << 20);
  std::memset(hole, 7, 1 << 20);  // as a wild kernel does
  EXPECT_GE(pages_of(*heap), 512);
  heap->clear_free();
  EXPECT_LE(pages_of(*heap), 260);
  for (int64_t bytes : {100, 5000, 1 << 19}) {
    const auto block = heap->allocate(bytes);
    EXPECT_GE(block->data(), hole);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(block->data()[i], 0) << i;
  }
  EXPECT_EQ(blocks[2]->data()[99], 7);
}

TEST(SharedRing, records_arrive_whole_and_in_order) {
  RingMemory memory(1 << 10);
  constexpr int kRecords = 100'000;
  const auto size_of = [](int i) { return uint32_t(4 + i * 7 % 300); };
  std::thread writer([&] {
    SharedRing ring = memory.view();
    for (int i = 0; i < kRecords; ++i) {
      char* record;
      while ((record = ring.begin_write(size_of(i))) == nullptr) std::this_thread::yield();
      std::memset(record, char(i), size_of(i));
      ring.end_write();
    }
  });
  SharedRing ring = memory.view();
  for (int i = 0; i < kRecords; ++i) {
    std::span<const char> record;
    while ((record = ring.front()).data() == nullptr) std::this_thread::yield();
    ASSERT_EQ(record.size(), size_of(i));
    for (char byte : record) ASSERT_EQ(byte, char(i));
    ring.pop();
  }
  writer.join();
  EXPECT_TRUE(ring.is_empty());
}

TEST(SharedRing, takes_no_more_than_it_holds) {
  RingMemory memory(1 << 10);
  SharedRing ring = memory.view();
  int records = 0;
  for (; ring.begin_write(100) != nullptr; ++records) ring.end_write();
  EXPECT_EQ(records, 9);                                // of 112 bytes with their sizes
  EXPECT_EQ(ring.begin_write(8), ring.begin_write(8));  // 16 bytes are left at the end
  ring.front();
  ring.pop();
  EXPECT_EQ(ring.begin_write(120), nullptr);
  EXPECT_NE(ring.begin_write(100), nullptr);  // at the beginning, 112 bytes
}

TEST(SharedRing, refuses_more_than_it_can_hold) {
  RingMemory memory(1 << 10);
  SharedRing ring = memory.view();
  char* const record = ring.begin_write(16);
  ring.end_write();
  const uint64_t much = ~uint64_t{0};
  const uint32_t skip = ~0u;
  std::memcpy(record - 8, &skip, sizeof skip);
  std::memcpy(record - 8 - SharedRing::kWordBytes, &much, sizeof much);  // what was written
  EXPECT_THROW(ring.front(), Error);
}

TEST(SharedRing, refuses_records_that_were_overwritten) {
  RingMemory memory(1 << 10);
  SharedRing ring = memory.view();
  char* const record = ring.begin_write(16);
  ring.end_write();
  for (uint32_t wrong : {25u, 1000u, 1u << 31}) {
    std::memcpy(record - 8, &wrong, sizeof wrong);
    EXPECT_THROW(ring.front(), Error) << wrong;
  }
}

}  // namespace pto::shared_memory_test
