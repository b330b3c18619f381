// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/serve.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "pto/base/clock.hpp"

namespace pto {
namespace {

// Reads POD values by copying: records are not aligned for all of them.
class Cursor {
 public:
  explicit Cursor(std::span<const char> bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)), sizeof(T));
    return value;
  }
  const char* bytes(size_t n) {
    PTO_ASSERT(size_t(end_ - at_) >= n);
    return std::exchange(at_, at_ + n);
  }

 private:
  const char *at_, *end_;
};

class Server {
 public:
  Server(const WorkerPlace& place, TaskExecutor& executor)
      : place_(place), mailbox_(place.mailbox), executor_(executor) {}

  void serve() {
    mailbox_.set_ready();
    for (bool goes_on = true; goes_on;) {
      mailbox_.wait_for_message(place_.spin_us);
      goes_on = take(mailbox_.to_worker().front());
      mailbox_.to_worker().pop();
      if (mailbox_.takes_bell(mailbox_.to_worker().is_empty())) ring();
    }
  }

 private:
  bool take(std::span<const char> record) {
    MessageHead head;
    std::memcpy(&head, record.data(), sizeof head);
    switch (head.kind) {
      case MessageKind::Load:
        load(Cursor(record).take<LoadMessage>());
        return true;
      case MessageKind::Forget:
        load_errors_.erase(head.program);
        executor_.forget(head.program);
        return true;
      case MessageKind::Task:
        task(Cursor(record));
        return true;
      case MessageKind::Stop:
        return false;
    }
    PTO_ASSERT(!"an unknown kind of message");
    return false;
  }

  void load(const LoadMessage& message) {
    const std::string error = text_of([&] {
      PTO_ASSERT(place_.heap->holds(place_.heap->data() + message.offset, message.bytes));
      executor_.load(message.head.program,
                     {place_.heap->data() + message.offset, size_t(message.bytes)});
    });
    if (!error.empty()) load_errors_[message.head.program] = error;
  }

  void task(Cursor from) {
    const auto message = from.take<TaskMessage>();
    read_arguments(message, from);
    follows_.resize(message.follows);
    for (TaskId& earlier : follows_) earlier = from.take<uint64_t>();
    if (skips_.skips(message.run, message.task, follows_, mailbox_.refused()))
      return answer({message.task, Outcome::Skipped, 0, 0, 0}, "");
    mailbox_.set_current(message.task);
    const uint64_t start = message.is_timed != 0 ? uint64_t(now_ns()) : 0;
    const std::string error = run(message);
    if (getpid() != process_) _exit(0);  // the kernel has forked, and its child is no worker
    const uint64_t end = message.is_timed != 0 ? uint64_t(now_ns()) : 0;
    if (!error.empty()) skips_.note_failure(message.task);
    answer({message.task, error.empty() ? Outcome::Done : Outcome::Failed, 0, start, end - start},
           error);
    mailbox_.set_current(0);
  }

  void read_arguments(const TaskMessage& message, Cursor& from) {
    tensors_.resize(message.tensors);
    dims_.clear();
    for (pto_tensor& tensor : tensors_) {
      const auto sent = from.take<TensorMessage>();
      tensor = {};
      tensor.data = place_.heap->data() + sent.offset;
      tensor.rank = sent.rank;
      tensor.type_code = sent.type_code;
      tensor.type_bits = sent.type_bits;
      tensor.type_lanes = 1;
      tensor.extent_bytes = sent.extent_bytes;
      tensor.flags = sent.flags;
      const size_t n = 2 * size_t(sent.rank), old = dims_.size();
      dims_.resize(old + n);
      if (n > 0) std::memcpy(&dims_[old], from.bytes(n * sizeof(int64_t)), n * sizeof(int64_t));
    }
    const int64_t* next = dims_.data();
    for (pto_tensor& tensor : tensors_) {
      tensor.sizes = next;
      tensor.strides = next + tensor.rank;
      next += 2 * tensor.rank;
    }
    scalars_.resize(message.scalars);
    for (uint64_t& scalar : scalars_) scalar = from.take<uint64_t>();
    kinds_.resize(message.scalars);
    for (uint8_t& kind : kinds_) kind = from.take<uint8_t>();
  }

  std::string run(const TaskMessage& message) {
    if (!load_errors_.empty())
      if (const auto error = load_errors_.find(message.head.program); error != load_errors_.end())
        return error->second;
    double left = 0;
    if (message.deadline_s > 0)
      left = std::max(1e-9, message.deadline_s - double(uint64_t(now_ns())) * 1e-9);
    return text_of([&] {
      executor_.run(message.head.program, tensors_, {scalars_, kinds_}, left);
    });
  }

  template <class Work>
  static std::string text_of(const Work& work) {
    try {
      work();
      return "";
    } catch (const std::exception& error) {
      return error.what()[0] != 0 ? error.what() : "an exception without a text";
    } catch (...) {
      return "an exception that is no std::exception";
    }
  }

  // Leaves out the middle of a text with more bytes: its beginning says where, its end what.
  static std::string shortened(const std::string& text, size_t most) {
    if (text.size() <= most) return text;
    const auto boundary = [&](size_t at) {  // of a character of UTF-8
      while (at < text.size() && (uint8_t(text[at]) & 0xC0) == 0x80) ++at;
      return at;
    };
    const size_t half = (most - 16) / 2;
    return text.substr(0, boundary(half)) + "\n...\n" + text.substr(boundary(text.size() - half));
  }

  void answer(Answer answer, const std::string& whole) {
    const std::string text = shortened(whole, mailbox_.to_host().most_bytes() / 4);
    answer.text_bytes = uint32_t(text.size());
    char* record;
    while ((record = mailbox_.to_host().begin_write(uint32_t(sizeof answer) + answer.text_bytes)) ==
           nullptr) {
      ring();
      std::this_thread::yield();
    }
    std::memcpy(record, &answer, sizeof answer);
    std::memcpy(record + sizeof answer, text.data(), answer.text_bytes);
    mailbox_.to_host().end_write();
  }

  void ring() {
    const uint64_t one = 1;
    while (write(place_.bell_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  const WorkerPlace& place_;
  const pid_t process_ = getpid();
  Mailbox mailbox_;
  TaskExecutor& executor_;
  std::vector<pto_tensor> tensors_;
  std::vector<int64_t> dims_;
  std::vector<uint64_t> scalars_;
  std::vector<uint8_t> kinds_;
  std::map<uint32_t, std::string> load_errors_;  // by program
  std::vector<TaskId> follows_;                  // of the task that is being taken
  WorkerSkips skips_;
};

}  // namespace

void serve(const WorkerPlace& place, TaskExecutor& executor) { Server(place, executor).serve(); }

}  // namespace pto
