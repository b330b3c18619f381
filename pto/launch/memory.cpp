// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/memory.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "pto/abi/host.h"
#include "pto/base/error.hpp"
#include "pto/base/machine.hpp"

// Present when the program runs under AddressSanitizer, even where this library was built without.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* start, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* start, size_t bytes);
}

namespace pto {
namespace {

constexpr size_t kLargeFrom = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kBytesMax = size_t{1} << 46;
constexpr uint64_t kLive = 0x70746f2d6c697665;  // marks of a header, to notice a second free
constexpr uint64_t kFree = 0x70746f2d66726565;

// Lies before the block, in a cache line of its own.
struct alignas(64) Header {
  uint64_t mark;
  size_t bytes;     // as asked for
  size_t capacity;  // header included
  Header* next;     // in a list of free blocks
  int32_t size_class;
  bool is_large;
};
static_assert(sizeof(Header) == 64);

// Sizes are 2^k times (1 + i / steps): at most 1/steps of a block is slack.
struct SizeClass {
  int index;
  size_t bytes;
};

template <int kLogSteps>
SizeClass size_class(size_t bytes, int log_least) {
  const size_t last = std::max(bytes, (size_t{1} << log_least) + 1) - 1;
  const int power = 63 - __builtin_clzll(last);
  const int step = static_cast<int>(last >> (power - kLogSteps)) & ((1 << kLogSteps) - 1);
  const size_t unit = size_t{1} << (power - kLogSteps);
  return {((power - log_least) << kLogSteps) + step,
          ((size_t{1} << kLogSteps) + static_cast<size_t>(step) + 1) * unit};
}

constexpr int kLogLeastSmall = 8;  // the step is a cache line
constexpr int kSmallClasses = (20 - kLogLeastSmall) * 4 + 4;
SizeClass small_class(size_t bytes) { return size_class<2>(bytes, kLogLeastSmall); }

constexpr int kLargeClasses = (47 - 20) * 8 + 8;
SizeClass large_class(size_t bytes) { return size_class<3>(bytes, 20); }

std::atomic<int64_t> g_live{0};
std::atomic<int64_t> g_peak_live{0};

void count_live(size_t bytes) {
  const int64_t live = g_live.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) +
                       static_cast<int64_t>(bytes);
  int64_t peak = g_peak_live.load(std::memory_order_relaxed);
  while (live > peak && !g_peak_live.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

char* data_of(Header* header) { return reinterpret_cast<char*>(header + 1); }

// Marks all bytes behind the first `usable` bytes of the block as out of bounds.
void bound(Header* header, size_t usable) {
  if (__asan_poison_memory_region == nullptr || __asan_unpoison_memory_region == nullptr) return;
  __asan_unpoison_memory_region(data_of(header), usable);
  __asan_poison_memory_region(data_of(header) + usable, header->capacity - sizeof(Header) - usable);
}

void unbound(Header* header) { bound(header, header->capacity - sizeof(Header)); }

void* hand_out(Header* header, size_t bytes) {
  header->mark = kLive;
  header->bytes = bytes;
  header->next = nullptr;
  bound(header, bytes);
  count_live(bytes);
  return data_of(header);
}

// Returns the largest request that succeeds: beyond it the system might promise memory and end the
// process at its use.
size_t physical_bytes() {
  static const size_t bytes =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Header* map_block(size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > start) munmap(raw, aligned - start);
  if (const size_t rest = kHugePage - (aligned - start); rest > 0) {
    munmap(reinterpret_cast<void*>(aligned + bytes), rest);
  }
  auto* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE);  // a kernel without huge pages refuses: ordinary ones do
  return static_cast<Header*>(block);
}

void unmap_all(Header* list) {
  while (list != nullptr) {
    Header* next = list->next;
    unbound(list);
    munmap(list, list->capacity);
    list = next;
  }
}

int64_t pool_bytes_setting() noexcept {
  try {
    return machine().pool_bytes;
  } catch (const Error&) {  // a malformed variable: the next launch reports it
    return -1;
  }
}

// All large blocks of the process.
class LargeBlocks {
 public:
  Header* take(const SizeClass& wanted) {
    if (wanted.bytes > physical_bytes()) return nullptr;
    Header* victims = nullptr;
    Header* found = nullptr;
    {
      const std::lock_guard lock(mutex_);
      found = take_free(wanted);
      if (found == nullptr) {
        // Evicts first as much as the new block needs, so that old and new never add up.
        live_ += wanted.bytes;
        victims = evict(std::max(limit(), live_));
      }
    }
    unmap_all(victims);
    if (found != nullptr) return found;
    Header* made = map_block(wanted.bytes);
    if (made == nullptr) {
      release();
      made = map_block(wanted.bytes);
    }
    const std::lock_guard lock(mutex_);
    if (made == nullptr) {
      live_ -= wanted.bytes;
      return nullptr;
    }
    note_peak();  // only now: a request that failed must not raise the limit
    ++maps_;
    made->capacity = wanted.bytes;
    made->size_class = wanted.index;
    made->is_large = true;
    return made;
  }

  void give(Header* header) noexcept {
    Header* victims = nullptr;
    {
      const std::lock_guard lock(mutex_);
      live_ -= header->capacity;
      try {
        free_[header->size_class].push_back({header, ++tick_});
        free_bytes_ += header->capacity;
        victims = evict(limit());
      } catch (const std::bad_alloc&) {
        header->next = nullptr;
        victims = header;
      }
    }
    unmap_all(victims);
  }

  void release() {
    Header* victims = nullptr;
    {
      const std::lock_guard lock(mutex_);
      victims = evict(live_);
    }
    unmap_all(victims);
  }

  void add_to(MemoryStats* stats) {
    const std::lock_guard lock(mutex_);
    stats->held_bytes = static_cast<int64_t>(live_ + free_bytes_);
    stats->free_bytes = static_cast<int64_t>(free_bytes_);
    stats->maps = maps_;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct FreeBlock {
    Header* header;
    uint64_t tick;  // when it was freed
  };

  // The block freed last is the likeliest to lie in the cache. The next class up will do too.
  Header* take_free(const SizeClass& wanted) {
    for (int index = wanted.index; index <= std::min(wanted.index + 1, kLargeClasses - 1);
         ++index) {
      if (free_[index].empty()) continue;
      Header* header = free_[index].back().header;
      free_[index].pop_back();
      free_bytes_ -= header->capacity;
      live_ += header->capacity;
      note_peak();
      return header;
    }
    return nullptr;
  }

  // The peak is forgotten after one to two windows of allocations, so that one large phase of a
  // program does not hold its memory for ever.
  void note_peak() {
    constexpr int kWindow = 256;
    if (++allocations_ % kWindow == 0) {
      peak_before_ = peak_;
      peak_ = 0;
    }
    peak_ = std::max(peak_, live_);
  }

  size_t limit() const {
    static const int64_t kSetting = pool_bytes_setting();
    if (kSetting >= 0) return static_cast<size_t>(kSetting);
    return std::max({size_t{256} << 20, peak_, peak_before_});
  }

  // Takes out the oldest free blocks until all held blocks fit `bytes`; returns them as a list.
  Header* evict(size_t bytes) {
    Header* victims = nullptr;
    while (free_bytes_ > 0 && live_ + free_bytes_ > bytes) {
      std::vector<FreeBlock>* oldest = nullptr;
      for (auto& blocks : free_) {
        if (blocks.empty()) continue;
        if (oldest == nullptr || blocks.front().tick < oldest->front().tick) oldest = &blocks;
      }
      Header* header = oldest->front().header;
      oldest->erase(oldest->begin());
      free_bytes_ -= header->capacity;
      header->next = victims;
      victims = header;
    }
    return victims;
  }

  std::mutex mutex_;
  std::vector<FreeBlock> free_[kLargeClasses];
  size_t live_ = 0;  // as mapped
  size_t free_bytes_ = 0;
  size_t peak_ = 0, peak_before_ = 0;
  uint64_t tick_ = 0;
  int64_t allocations_ = 0;
  int64_t maps_ = 0;
};

// The blocks are never destroyed: destructors of any static object may free one.
LargeBlocks& large_blocks() {
  static auto* blocks = new LargeBlocks;
  return *blocks;
}

[[maybe_unused]] const int kMemoryForkHandler =
    pthread_atfork([] { large_blocks().lock(); }, [] { large_blocks().unlock(); },
                   [] { large_blocks().unlock(); });

// A thread's free small blocks.
class SmallBlocks {
 public:
  ~SmallBlocks() {
    release();
    t_is_gone = true;
  }

  static SmallBlocks* of_thread() {
    static thread_local SmallBlocks blocks;
    return t_is_gone ? nullptr : &blocks;
  }

  Header* take(int index) {
    Header* header = free_[index];
    if (header == nullptr) return nullptr;
    free_[index] = header->next;
    --counts_[index];
    return header;
  }

  bool give(Header* header) {
    const int index = header->size_class;
    if (counts_[index] > 0 && (counts_[index] + 1u) * header->capacity > kBytesPerClass) {
      return false;
    }
    header->next = free_[index];
    free_[index] = header;
    ++counts_[index];
    return true;
  }

  void release() {
    for (int index = 0; index < kSmallClasses; ++index) {
      while (Header* header = take(index)) {
        unbound(header);
        std::free(header);
      }
    }
  }

 private:
  static constexpr size_t kBytesPerClass = 256 << 10;
  static thread_local bool t_is_gone;  // no destructor, so destructors of other objects may read it

  Header* free_[kSmallClasses] = {};
  uint32_t counts_[kSmallClasses] = {};
};

thread_local bool SmallBlocks::t_is_gone = false;

Header* take_small(size_t bytes) {
  const SizeClass wanted = small_class(bytes);
  SmallBlocks* blocks = SmallBlocks::of_thread();
  if (blocks != nullptr) {
    if (Header* header = blocks->take(wanted.index)) return header;
  }
  auto* header = static_cast<Header*>(std::aligned_alloc(sizeof(Header), wanted.bytes));
  if (header == nullptr) return nullptr;
  header->capacity = wanted.bytes;
  header->size_class = wanted.index;
  header->is_large = false;
  return header;
}

}  // namespace

MemoryStats memory_stats() {
  MemoryStats stats{};
  stats.live_bytes = g_live.load(std::memory_order_relaxed);
  stats.peak_live_bytes = g_peak_live.load(std::memory_order_relaxed);
  large_blocks().add_to(&stats);
  return stats;
}

void reset_peak_live_bytes() { g_peak_live.store(g_live.load()); }

void release_cached() {
  if (SmallBlocks* blocks = SmallBlocks::of_thread()) blocks->release();
  large_blocks().release();
}

int64_t mapped_bytes(int64_t bytes) {
  return static_cast<int64_t>(large_class(static_cast<size_t>(bytes) + sizeof(Header)).bytes);
}

}  // namespace pto

void* pto_malloc(size_t bytes) {
  if (bytes > pto::kBytesMax) return nullptr;
  const size_t with_header = bytes + sizeof(pto::Header);
  pto::Header* header = with_header < pto::kLargeFrom
                            ? pto::take_small(with_header)
                            : pto::large_blocks().take(pto::large_class(with_header));
  return header == nullptr ? nullptr : pto::hand_out(header, bytes);
}

void pto_free(void* pointer) {
  if (pointer == nullptr) return;
  pto::Header* header = static_cast<pto::Header*>(pointer) - 1;
  if (header->mark != pto::kLive) {
    std::fprintf(stderr,
                 "pto_free: %p is not a live block of pto_malloc\n"
                 "  why: it was freed before, or comes from another allocator, or its header was "
                 "overwritten\n  fix: free each block once; the block is left alone\n",
                 pointer);
    return;
  }
  pto::g_live.fetch_sub(static_cast<int64_t>(header->bytes), std::memory_order_relaxed);
  header->mark = pto::kFree;
  pto::bound(header, 0);
  if (header->is_large) {
    pto::large_blocks().give(header);
    return;
  }
  pto::SmallBlocks* blocks = pto::SmallBlocks::of_thread();
  if (blocks != nullptr && blocks->give(header)) return;
  pto::unbound(header);
  std::free(header);
}
