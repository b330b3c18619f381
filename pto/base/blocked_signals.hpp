// SPDX-License-Identifier: Apache-2.0
// BlockedSignals: a thread that is started while it lives handles no signal; the program's own
// threads do.
//
//     const BlockedSignals blocked;
//     std::thread(work).detach();
//
// Invariant: the calling thread gets its mask back, also after an exception.
// Thread safety: an object belongs to the thread that made it.
#pragma once

#include <signal.h>

namespace pto {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace pto
