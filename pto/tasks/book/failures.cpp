// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/failures.hpp"

#include <algorithm>

namespace pto {
namespace {

constexpr const char* kFix = "mend the cause; the runtime can be used again";

std::string tasks(int64_t count) {
  return std::to_string(count) + (count == 1 ? " task" : " tasks");
}

}  // namespace

void Failures::clear() {
  all_.clear();
  causes_.clear();
}

int32_t Failures::note(TaskFailure failure) {
  all_.push_back(std::move(failure));
  return count() - 1;
}

TaskFailure Failures::first() const {
  TaskFailure first = all_.front();
  const auto stopped = int64_t(causes_.size());
  first.others = first.task == 0 ? stopped : std::max<int64_t>(0, stopped - 1);
  return first;
}

ErrorText text_of(const TaskFailure& first) {
  if (first.task == 0)
    return {"the run was stopped: " + first.text,
            first.others == 0 ? "every task had ended" : tasks(first.others) + " did not run",
            kFix};
  return {"task " + std::to_string(first.task) + " (" + first.name + ")" +
              (first.site.empty() ? "" : ", submitted at " + first.site) + ", failed" +
              (first.place.empty() ? "" : " " + first.place) + ": " +
              (first.text.empty() ? "it gave no text" : first.text),
          first.others == 0   ? "no other task followed it"
          : first.others == 1 ? "1 task follows it or failed too, and did not run"
                              : tasks(first.others) + " follow it or failed too, and did not run",
          kFix};
}

void check_window(int64_t window) {
  if (window < 2 || (window & (window - 1)) != 0)
    fail({"a window of " + std::to_string(window) + " tasks",
          "the window is a power of two, at least 2", "pass 4096, for example"});
}

void refuse_after(TaskId after, TaskId first, TaskId last) {
  fail({"a task is to follow task " + std::to_string(after) + ", but this run " +
            (last < first ? "has none yet"
                          : "has tasks " + std::to_string(first) + " to " + std::to_string(last)),
        "a task follows tasks that were submitted before it, in this run",
        "pass ids that submit() has returned"});
}

std::string site_of(const char* file, int32_t line) {
  return file[0] == 0 ? "" : file + (":" + std::to_string(line));
}

}  // namespace pto
