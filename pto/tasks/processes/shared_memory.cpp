// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pto/base/clock.hpp"
#include "pto/base/error.hpp"
#include "pto/base/machine.hpp"

namespace pto {
namespace {

constexpr int64_t kPage = 4096, kAlignment = 64;
constexpr int64_t kLarge = 16 * kPage;  // larger blocks are whole pages, which can be given back
constexpr int64_t kStep = kLarge;       // by which memory past the last block comes and goes

int64_t rounded(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

[[noreturn]] void fail_of_system(const std::string& call, int64_t bytes) {
  const int code = errno;
  fail({"shared memory of " + text_bytes(bytes) + ": " + call + " says " + std::strerror(code),
        "this process and its workers share a region of memory without a name",
        "free memory, or ask for less: memory="},
       ErrorKind::Runtime);
}

}  // namespace

SharedRegion::SharedRegion(int64_t bytes, int64_t present)
    : fd_(-1), bytes_(rounded(bytes, kPage)), present_(std::min(present, bytes_)) {
  fd_ = memfd_create("pto", MFD_CLOEXEC);
  if (fd_ < 0) fail_of_system("memfd_create", bytes_);
  if (ftruncate(fd_, present_) != 0) {
    const int code = errno;
    close(fd_);
    errno = code;
    fail_of_system("ftruncate", bytes_);
  }
  map();
}

SharedRegion::SharedRegion(int fd, int64_t bytes) : fd_(fd), bytes_(bytes), present_(bytes) {
  map();
}

void SharedRegion::map() {
  void* const address =
      mmap(nullptr, size_t(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (address == MAP_FAILED) {
    const int code = errno;
    close(fd_);
    errno = code;
    fail_of_system("mmap", bytes_);
  }
  data_ = static_cast<char*>(address);
}

SharedRegion::~SharedRegion() {
  munmap(data_, size_t(bytes_));
  close(fd_);
}

bool SharedRegion::holds(const void* address, int64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(data_);
  return at >= begin && bytes <= bytes_ && at - begin <= uintptr_t(bytes_ - bytes);
}

void SharedRegion::discard(int64_t offset, int64_t bytes) {
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0)
    std::memset(data_ + offset, 0, size_t(bytes));
}

void SharedRegion::set_present(int64_t bytes) {
  if (ftruncate(fd_, bytes) != 0) fail_of_system("ftruncate", bytes);
  present_ = bytes;
}

SharedHeap::SharedHeap(int64_t bytes) : region_(bytes, 0), process_(getpid()) {
  free_[0] = {region_.bytes(), true};
}

std::shared_ptr<SharedHeap> SharedHeap::make(int64_t bytes) {
  return std::shared_ptr<SharedHeap>(new SharedHeap(bytes));
}

bool SharedHeap::is_of_this_process() const { return getpid() == process_; }

// Takes the first extent with room, cuts it and zeroes the block; returns its offset, or -1.
int64_t SharedHeap::take(int64_t bytes, int64_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const int64_t offset = rounded(it->first, alignment);
    const int64_t before = offset - it->first, after = it->second.bytes - before - bytes;
    if (after < 0) continue;
    const bool is_zero = it->second.is_zero;
    if (offset + bytes > region_.present()) fit_to(offset + bytes);
    if (after > 0) free_[offset + bytes] = {after, is_zero};
    if (before > 0)
      it->second.bytes = before;
    else
      free_.erase(it);
    if (!is_zero && alignment == kPage)
      region_.discard(offset, bytes);
    else if (!is_zero)
      std::memset(region_.data() + offset, 0, size_t(bytes));
    return offset;
  }
  return -1;
}

std::shared_ptr<SharedBlock> SharedHeap::allocate(int64_t bytes) {
  if (!is_of_this_process())
    fail({"process " + std::to_string(getpid()) + " asks for " + text_bytes(bytes) +
              " of the shared memory of process " + std::to_string(process_),
          "it was forked from that one, which goes on using this memory",
          "make a Runtime in this process"},
         ErrorKind::Runtime);
  const bool is_large = bytes >= kLarge;
  const std::lock_guard lock(mutex_);
  const int64_t limit = region_.bytes();
  const int64_t size =
      bytes > limit ? bytes : rounded(bytes < 1 ? 1 : bytes, is_large ? kPage : kAlignment);
  const int64_t offset = size > limit ? -1 : take(size, is_large ? kPage : kAlignment);
  if (offset < 0)
    fail({"shared memory: a task or tensor asks for " + text_bytes(bytes) + ", but " +
              text_bytes(taken_bytes_) + " of " + text_bytes(limit) + " are taken",
          "all tensors of a runtime lie in one region of a fixed size",
          "delete tensors, or make the runtime with a larger memory="},
         ErrorKind::Runtime);
  auto block = std::make_shared<SharedBlock>(shared_from_this(), offset, bytes);
  taken_[offset] = {
      size, block, {++allocated_, since_trace_ns(), MemoryRecord::kHeld, bytes, 0, 0}};
  taken_bytes_ += size;
  return block;
}

std::shared_ptr<SharedBlock> SharedHeap::find(const void* address) {
  if (!region_.holds(address, 0)) return nullptr;
  const int64_t offset = static_cast<const char*>(address) - region_.data();
  const std::lock_guard lock(mutex_);
  auto it = taken_.upper_bound(offset);
  if (it == taken_.begin()) return nullptr;
  --it;
  return offset < it->first + it->second.bytes ? it->second.block.lock() : nullptr;
}

int64_t SharedHeap::taken_bytes() const {
  const std::lock_guard lock(mutex_);
  return taken_bytes_;
}

void SharedHeap::give_back(int64_t offset) {
  if (!is_of_this_process()) return;  // before the lock: a thread of the parent may have held it
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(offset);
  const int64_t bytes = taken->second.bytes;
  if (trace_start_ >= 0) {
    taken->second.record.end_ns = since_trace_ns();
    freed_.add(taken->second.record);
  }
  taken_.erase(taken);
  taken_bytes_ -= bytes;
  Extent extent{bytes, bytes >= kLarge};
  const int64_t end = taken_.empty() ? 0 : taken_.rbegin()->first + taken_.rbegin()->second.bytes;
  try {
    if (rounded(end, kStep) < region_.present()) fit_to(end);
  } catch (const Error&) {  // the heap keeps pages that nobody needs
  }
  if (extent.is_zero && offset < region_.present()) region_.discard(offset, bytes);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    extent = {extent.bytes + next->second.bytes, extent.is_zero && next->second.is_zero};
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto& [before, other] = *std::prev(next);
    if (before + other.bytes == offset) {
      other = {other.bytes + extent.bytes, other.is_zero && extent.is_zero};
      return;
    }
  }
  free_[offset] = extent;
}

void SharedHeap::fit_to(int64_t end) {
  region_.set_present(std::min(rounded(end, kStep), region_.bytes()));
}

void SharedHeap::clear_free() {
  const std::lock_guard lock(mutex_);
  for (auto& [offset, extent] : free_) {
    const int64_t begin = rounded(offset, kPage);
    const int64_t end = std::min((offset + extent.bytes) / kPage * kPage, region_.present());
    if (begin < end) region_.discard(begin, end - begin);
    extent.is_zero = extent.is_zero && begin == offset && extent.bytes % kPage == 0;
  }
}

// --- trace ---------------------------------------------------------------------------------------

uint64_t SharedHeap::since_trace_ns() const {
  return trace_start_ < 0 ? 0 : uint64_t(now_ns() - trace_start_);
}

void SharedHeap::begin_trace(size_t capacity, uint64_t start_ns) {
  const std::lock_guard lock(mutex_);
  freed_.begin(capacity);
  trace_start_ = int64_t(start_ns);
  for (auto& [offset, taken] : taken_) {
    taken.record.start_ns = taken.record.task = 0;
    taken.record.site = 0;
  }
}

void SharedHeap::note_first_task(const SharedBlock& block, uint64_t task, uint32_t site) {
  const std::lock_guard lock(mutex_);
  MemoryRecord& record = taken_.at(block.offset()).record;
  if (record.task > 0) return;
  record.task = task;
  record.site = site;
}

void SharedHeap::end_trace(RunTrace& into) {
  const std::lock_guard lock(mutex_);
  into.memory_dropped += freed_.end(into.memory);
  for (const auto& [offset, taken] : taken_) into.memory.push_back(taken.record);
  trace_start_ = -1;
}

SharedBlock::~SharedBlock() { heap_->give_back(offset_); }

char* SharedBlock::data() const { return heap_->region().data() + offset_; }

}  // namespace pto
