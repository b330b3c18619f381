// SPDX-License-Identifier: Apache-2.0
// Noted: how often texts were seen, for warnings that are given once and work that is done once.
//
//     static Noted told;
//     if (told.add(text) == 1) warn(text);
//
// Thread safety: any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace pto {

class Noted {
 public:
  // Returns how often the text has been noted, this time among them.
  int add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return ++times_[text];
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return times_.count(text) != 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> times_;
};

}  // namespace pto
