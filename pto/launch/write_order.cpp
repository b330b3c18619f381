// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/write_order.hpp"

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "pto/launch/host_lock.hpp"

namespace pto {
namespace {

struct Writers {
  std::mutex mutex;
  std::condition_variable ended;
  WriteOrder* first = nullptr;
};

// Never destroyed: threads may outlive static objects. A child of fork() has no other thread.
Writers* writers = new Writers;
[[maybe_unused]] const int kWritersForkHandler =
    pthread_atfork(nullptr, nullptr, [] { writers = new Writers; });

thread_local int under_way = 0;  // of this thread

}  // namespace

WriteOrder::WriteOrder(std::span<const AddressRange> written) : written_(written) {
  if (written_.empty()) return;
  if (under_way++ > 0) return;
  Writers& all = *writers;
  {
    const std::unique_lock lock(all.mutex);
    if (!must_wait()) {
      enter();
      return;
    }
  }
  const GivenUpLock given_up;
  std::unique_lock lock(all.mutex);
  all.ended.wait(lock, [this] { return !must_wait(); });
  enter();
}

WriteOrder::~WriteOrder() {
  if (written_.empty() || --under_way > 0) return;
  Writers& all = *writers;
  {
    const std::unique_lock lock(all.mutex);
    WriteOrder** at = &all.first;
    while (*at != nullptr && *at != this) at = &(*at)->next_;
    if (*at != nullptr) *at = next_;  // null in a child of fork()
  }
  all.ended.notify_all();
}

bool WriteOrder::must_wait() const {
  for (const WriteOrder* one = writers->first; one != nullptr; one = one->next_)
    for (const AddressRange& there : one->written_)
      for (const AddressRange& here : written_)
        if (overlap(here, there)) return true;
  return false;
}

void WriteOrder::enter() {
  next_ = writers->first;
  writers->first = this;
}

}  // namespace pto
