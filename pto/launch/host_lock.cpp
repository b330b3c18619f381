// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/host_lock.hpp"

namespace pto {
namespace {

HostLock host_lock;

}  // namespace

void set_host_lock(HostLock lock) { host_lock = lock; }

GivenUpLock::GivenUpLock() : given_up_(host_lock.give_up ? host_lock.give_up() : nullptr) {}
GivenUpLock::~GivenUpLock() {
  if (host_lock.take_again) host_lock.take_again(given_up_);
}

}  // namespace pto
