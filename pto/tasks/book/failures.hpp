// SPDX-License-Identifier: Apache-2.0
// Failures: the tasks that failed, the tasks that follow them, and the error of the run.
//
//     Failures failures;
//     const int32_t cause = failures.note({.task = 7, .name = "scale", .text = "a text"});
//     failures.poison(8, cause);                 // task 8 follows it and does not run
//     failures.cause_of(8) == cause;
//     throw Error(text_of(failures.first()), ErrorKind::Runtime);
//
// Invariant: the first failure is the run's error.
// Thread safety: none; an engine with several threads locks.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/book/history.hpp"

namespace pto {

struct TaskFailure {
  TaskId task = 0;                              // 0: the run itself was stopped
  std::string name = "", site = "", text = "";  // site: "file:line" of the submission
  std::string place = "";                       // "on worker 3", "in a replay"
  int device = -1, signal = 0;                  // of a worker process
  int64_t others = 0;                           // tasks that follow it or failed too
};
ErrorText text_of(const TaskFailure& first);

class Failures {
 public:
  void clear();
  bool is_empty() const { return all_.empty(); }
  const std::vector<TaskFailure>& all() const { return all_; }
  int32_t count() const { return int32_t(all_.size()); }
  int32_t note(TaskFailure failure);  // returns its number: the cause for its followers
  void poison(TaskId task, int32_t cause) { causes_.emplace(task, cause); }
  int32_t cause_of(TaskId task) const {  // -1: none
    const auto found = causes_.find(task);
    return found == causes_.end() ? -1 : found->second;
  }
  const TaskFailure& operator[](int32_t number) const { return all_[size_t(number)]; }
  TaskFailure first() const;  // with the number of others

 private:
  std::vector<TaskFailure> all_;
  std::unordered_map<TaskId, int32_t> causes_;
};

// Throws Error unless the window, a number of tasks in flight, is a power of two from 2.
void check_window(int64_t window);
[[noreturn]] void refuse_after(TaskId after, TaskId first, TaskId last);
// Throws Error unless the task `after` is one of first to last, the run's tasks so far.
inline void check_after(TaskId after, TaskId first, TaskId last) {
  if (after < first || after > last) [[unlikely]]
    refuse_after(after, first, last);
}

// "file:line" of a submission; "" where unknown.
std::string site_of(const char* file, int32_t line);

}  // namespace pto
