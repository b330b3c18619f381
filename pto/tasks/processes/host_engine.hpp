// SPDX-License-Identifier: Apache-2.0
// The host engine: tasks on several devices, each a worker process, over memory that all share.
//
//     HostEngine engine({.devices = {0, 1}, .worker = {"/path/pto_worker"}});
//     uint32_t scale = engine.add_program(image);
//     std::shared_ptr<SharedBlock> x = engine.heap()->allocate(4096);
//     engine.begin_run({});
//     engine.submit({.program = scale, .name = "scale", .members = {&member, 1}});
//     HostReport report = engine.end_run();
//
// Tasks follow each other by the bytes that they touch, as in the chip engine, also from one device
// to another; the host sends a task as soon as what it follows is done, or stands before it in the
// same worker's queue. A task of several members runs on all of them at once, and is done when all
// are.
// Errors: a task that fails, by an error, an exception or the death of its process, poisons those
// that follow it; all others finish, and end_run() throws a HostError. A process that has died is
// replaced. Nothing is left behind, however this process ends.
// Thread safety: one thread at a time between begin_run() and end_run(); stop(), close() and all
// else from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/launch/number.hpp"
#include "pto/tasks/book/history.hpp"
#include "pto/tasks/cores/task.hpp"
#include "pto/tasks/processes/program_image.hpp"
#include "pto/tasks/processes/shared_memory.hpp"

namespace pto {

struct RunTrace;

struct HostOptions {
  std::vector<int> devices;                // their ids; a worker process each
  std::vector<std::string> worker;         // the command line of pto_worker
  std::vector<std::string> python_worker;  // the same of one that runs Python
  int64_t memory_bytes = int64_t(1) << 30;
  int threads = 0;  // of a worker; 0: its share of the cores
};

struct HostTensor {
  std::shared_ptr<SharedBlock> block;
  Access access;
  pto_tensor view;  // data inside the block
};

// What a task is on one device.
struct HostMember {
  int device;  // its place in HostOptions::devices
  std::span<const HostTensor> tensors;
  Numbers scalars;
};

struct HostTaskSpec {
  uint32_t program;
  std::string_view name;
  std::span<const HostMember> members;
  std::span<const TaskId> after;
  std::string_view site;  // "file:line" of the submission
  // Instead of members: a task that is done when the predicate holds. It follows nobody for that;
  // `gate_holds` keeps its element alive.
  const Predicate* gate = nullptr;
  std::span<const HostTensor> gate_holds;
};

struct HostRunOptions {
  double deadline_s = 0;      // 0: none. Then workers that still run are killed
  int64_t window = 4096;      // tasks in flight: a power of two
  RunTrace* trace = nullptr;  // filled where it is given
};

struct HostReport {
  int64_t tasks = 0, edges = 0, unknown_overlaps = 0, replaced_workers = 0;
};

struct HostFailure {
  TaskId task = 0;  // 0: the run itself
  std::string name, site, text;
  int device = -1, signal = 0;
  int64_t others = 0;  // that follow it or failed too
};

class HostError : public Error {
 public:
  HostError(ErrorText text, HostFailure failure)
      : Error(std::move(text), ErrorKind::Runtime), failure(std::move(failure)) {}
  const HostFailure failure;
};

struct WorkerState {
  int device, pid;
  int64_t starts;  // processes that this one followed, and itself
};

class HostEngine {
 public:
  // Starts the workers; returns when all have said that they are there. Throws Error where one
  // cannot be started or ends at once.
  explicit HostEngine(const HostOptions& options);
  ~HostEngine();
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  const std::shared_ptr<SharedHeap>& heap() const;

  uint32_t add_program(const ProgramImage& image);
  void remove_program(uint32_t program);  // no task of it may come

  void begin_run(const HostRunOptions& options);
  // Waits where the window is full. Throws Error for a specification that cannot run, and once the
  // run was stopped.
  TaskId submit(const HostTaskSpec& spec);
  // Until the writers of the tensor's bytes are done; false where one has failed.
  bool wait_for(const HostTensor& tensor);
  bool wait_for(TaskId task);
  std::vector<TaskId> writers_of(const HostTensor& tensor);
  // For a task, or for the end of all: no task comes then. Whether it is done.
  bool wait_some_time(TaskId task, double seconds);
  bool wait_some_time(double seconds);
  bool is_done(TaskId task);
  bool has_succeeded(TaskId task);  // of the last run, once it is done
  // Waits for all. Throws HostError for the first failure.
  HostReport end_run();
  bool is_running() const;  // between begin_run() and the return of end_run()
  // Nothing more begins, and what runs is killed where `kills`; the run fails with this text.
  void stop(const std::string& text, bool kills);

  std::vector<WorkerState> workers() const;

  // Ends the processes: those that are busy by force. No run may be under way. May come again.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pto
