// SPDX-License-Identifier: Apache-2.0
// Host lock: a lock of the host, such as Python's, that a thread of it gives up while it waits.
//
//     set_host_lock({give_up, take_again});
//     const GivenUpLock given_up;   // until the end of the scope
//
// A kernel is made with the lock held, and calls that hold it wait for the writes of others: who
// waits for either must not hold it.
// Thread safety: any thread; set_host_lock() before the first use of the kernel table.
#pragma once

namespace pto {

struct HostLock {  // both null at first
  void* (*give_up)() = nullptr;
  void (*take_again)(void* given_up) = nullptr;
};
void set_host_lock(HostLock lock);

class GivenUpLock {
 public:
  GivenUpLock();
  ~GivenUpLock();
  GivenUpLock(const GivenUpLock&) = delete;
  GivenUpLock& operator=(const GivenUpLock&) = delete;

 private:
  void* given_up_;
};

}  // namespace pto
