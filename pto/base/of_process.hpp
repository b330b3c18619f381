// SPDX-License-Identifier: Apache-2.0
// of_process(): an object that each process has for itself, such as a lock with what it guards.
//
//     struct Known { std::mutex mutex; std::map<std::string, std::string> digests; };
//     Known& known = of_process<Known>();
//
// A child of fork() begins with a new one: the thread that holds the lock of its parent's would
// never give it back there. Objects are never destroyed, since threads may outlive static ones; in
// a child what the parent's holds stays valid too.
// Thread safety: any thread may call it; the object has locks of its own.
#pragma once
#include <pthread.h>

#include <atomic>

namespace pto {

template <class T>
T& of_process() {
  static std::atomic<T*> current{nullptr};
  static const int handler = [] {
    current = new T;
    return pthread_atfork(nullptr, nullptr, [] { current = new T; });
  }();
  (void)handler;
  return *current;
}

}  // namespace pto
