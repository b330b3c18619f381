// SPDX-License-Identifier: Apache-2.0
// The host engine: runs tasks on several devices, each a worker process, over shared memory.
//
//     HostEngine engine({.devices = {0, 1}, .worker = {"/path/pto_worker"}});
//     uint32_t scale = engine.add_program(image);
//     std::shared_ptr<SharedBlock> x = engine.heap()->allocate(4096);
//     engine.begin_run({});
//     engine.submit({.program = scale, .name = "scale", .members = {&member, 1}});
//     HostReport report = engine.end_run();
//
// Tasks depend on each other by the bytes that they touch, as in the chip engine, also across
// devices. The host sends a task to its worker as soon as each predecessor is done or stands before
// it in that worker's queue. A task of several members runs on all of them at once and is done when
// all are.
// Errors: a task fails by an error, an exception or the death of its process, and poisons its
// successors; all others finish, and end_run() throws a HostError. The engine replaces a dead
// process by a new one.
// Invariant: no process and no memory is left behind, however this process ends.
// Thread safety: one thread at a time between begin_run() and end_run(); stop(), close() and the
// rest from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/launch/number.hpp"
#include "pto/tasks/book/failures.hpp"
#include "pto/tasks/cores/task.hpp"
#include "pto/tasks/processes/program_image.hpp"
#include "pto/tasks/processes/shared_memory.hpp"

namespace pto {

struct RunTrace;

struct HostOptions {
  std::vector<int> devices;                // their ids; a worker process each
  std::vector<std::string> worker;         // the command line of pto_worker
  std::vector<std::string> python_worker;  // the same for one that runs Python
  int64_t memory_bytes = int64_t(1) << 30;
  int threads = 0;  // threads of a worker; 0: its share of the cores
};

struct HostTensor {
  std::shared_ptr<SharedBlock> block;
  Access access;
  pto_tensor view;  // data inside the block
};

// The part of a task that runs on one device.
struct HostMember {
  int device;  // an index in HostOptions::devices
  std::span<const HostTensor> tensors;
  Numbers scalars;
};

struct HostTaskSpec {
  uint32_t program;
  std::string_view name;
  std::span<const HostMember> members;
  std::span<const TaskId> after;
  std::string_view site;  // "file:line" of the submission
  // Instead of members: the task is done when the predicate holds, whatever wrote its element.
  // `gate_holds` keeps the element alive.
  const Predicate* gate = nullptr;
  std::span<const HostTensor> gate_holds;
};

struct HostRunOptions {
  double deadline_s = 0;      // 0: none; after it, busy workers are killed
  int64_t window = 4096;      // tasks in flight: a power of two
  RunTrace* trace = nullptr;  // if given, the run fills it
};

struct HostReport {
  int64_t tasks = 0, edges = 0, unknown_overlaps = 0, replaced_workers = 0;
};

class HostError : public Error {
 public:
  explicit HostError(TaskFailure failure)
      : Error(text_of(failure), ErrorKind::Runtime), failure(std::move(failure)) {}
  const TaskFailure failure;
};

struct WorkerState {
  int device, pid;
  int64_t starts;  // processes so far, this one included
};

class HostEngine {
 public:
  // Starts the workers and returns once all are ready. Throws Error if one cannot be started or
  // ends at once.
  explicit HostEngine(const HostOptions& options);
  ~HostEngine();
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  const std::shared_ptr<SharedHeap>& heap() const;

  uint32_t add_program(const ProgramImage& image);
  void remove_program(uint32_t program);  // no task of it may be submitted any more

  uint64_t begin_run(const HostRunOptions& options);  // returns the number of the run
  // Waits while the window is full. Throws Error for a task that cannot run, and after the run was
  // stopped.
  TaskId submit(const HostTaskSpec& spec);
  // Waits until the writers of the tensor's bytes are done; returns false if one has failed. After
  // end_run() it tells of that run.
  bool wait_for(const HostTensor& tensor);
  bool wait_for(TaskId task);
  std::vector<TaskId> writers_of(const HostTensor& tensor);
  // Says that nothing is submitted before this task is done, so that a gate which nothing else
  // opens is a deadlock.
  HostEngine& await(TaskId task);
  // Waits at most `seconds` for a task, or for the end of all tasks, while nothing is submitted.
  // Returns whether they are done.
  bool wait_some_time(TaskId task, double seconds);
  bool wait_some_time(double seconds);
  bool is_done(TaskId task);
  bool has_succeeded(TaskId task);  // a task of the last run that is done
  // Waits for all tasks. Throws HostError for the first failure.
  HostReport end_run();
  bool is_running() const;  // between begin_run() and the return of end_run()
  // Starts nothing more, kills running tasks if `kills`, and fails the run with this text. Returns
  // false, and does nothing, where no run is under way, or another one than `run`; 0: any.
  bool stop(const std::string& text, bool kills, uint64_t run = 0);

  std::vector<WorkerState> workers() const;

  // Ends the processes, busy ones by force. No run may be under way. A second call does nothing.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pto
