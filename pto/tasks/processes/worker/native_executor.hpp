// SPDX-License-Identifier: Apache-2.0
// NativeExecutor: runs programs of compiled code in a worker process, without Python.
//
//     NativeExecutor executor;
//     serve(place, executor);
//
// Invariant: a program's code stays loaded until forget().
// Thread safety: one thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "pto/tasks/cores/orchestrate.hpp"
#include "pto/tasks/processes/program_image.hpp"
#include "pto/tasks/processes/serve.hpp"
#include "pto/tasks/processes/worker/collectives.hpp"

namespace pto {

class Library;

class NativeExecutor final : public TaskExecutor {
 public:
  void load(uint32_t program, std::span<const char> image) override;
  void forget(uint32_t program) override { programs_.erase(program); }
  void run(uint32_t program, std::span<const pto_tensor> tensors, const Numbers& scalars,
           double seconds_left) override;

 private:
  struct LoadedProgram {
    ProgramKind kind;
    std::vector<std::shared_ptr<const Library>> code;  // keeps it loaded
    OrchestrationProgram orchestration;
    TaskKernel kernel;
    Collective collective = nullptr;
  };
  static LoadedProgram loaded(const ProgramImage& image);

  std::map<uint32_t, LoadedProgram> programs_;
};

}  // namespace pto
