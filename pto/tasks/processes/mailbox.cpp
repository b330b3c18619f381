// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/mailbox.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "pto/base/clock.hpp"

namespace pto {
namespace {

// Works across processes, which std::atomic::wait() does not.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

Mailbox Mailbox::make() { return Mailbox(std::make_shared<SharedRegion>(bytes())); }

Mailbox::Mailbox(std::shared_ptr<SharedRegion> region)
    : region_(std::move(region)),
      words_(reinterpret_cast<Words*>(region_->data())),
      to_worker_(region_->data() + sizeof(Words), kRingBytes),
      to_host_(region_->data() + sizeof(Words) + SharedRing::bytes_for(kRingBytes), kRingBytes) {}

void Mailbox::ring_worker() {
  words_->messages.fetch_add(1, std::memory_order_seq_cst);
  if (words_->sleeps.load(std::memory_order_seq_cst) != 0)
    futex(words_->messages, FUTEX_WAKE, INT_MAX);
}

// The worker announces its sleep before its last look, so either it sees a new message or the host
// sees the announcement.
void Mailbox::wait_for_message(int spin_us) {
  const int64_t end = now_ns() + int64_t{spin_us} * 1000;
  for (int i = 0; to_worker_.is_empty(); ++i) {
    pause_core();
    if (i % 64 == 63 && now_ns() >= end) break;
  }
  while (to_worker_.is_empty()) {
    words_->sleeps.store(1, std::memory_order_seq_cst);
    const uint32_t seen = words_->messages.load(std::memory_order_seq_cst);
    if (to_worker_.is_empty()) futex(words_->messages, FUTEX_WAIT, seen);
    words_->sleeps.store(0, std::memory_order_seq_cst);
  }
}

}  // namespace pto
