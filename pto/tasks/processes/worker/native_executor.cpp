// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/worker/native_executor.hpp"

#include "pto/base/error.hpp"
#include "pto/compiler/compile.hpp"

namespace pto {
namespace {

void run_kernel(const TaskKernel& kernel, std::span<const pto_tensor> tensors,
                const Numbers& scalars) {
  std::vector<uint64_t> slots;
  for (size_t i = 0; i < scalars.size(); ++i) slots.push_back(kernel.slot(i, scalars[i]));
  const pto_args args = args_of(tensors, slots);
  if (pto_launch(kernel.function, &args, 1) != 0)
    throw Error({pto_last_error(), "", ""}, ErrorKind::Runtime);
}

}  // namespace

NativeExecutor::LoadedProgram NativeExecutor::loaded(const ProgramImage& image) {
  LoadedProgram program{image.kind, {}, {}, {}, nullptr};
  if (image.kind == ProgramKind::Collective) {
    program.collective = collective_of(image.name);
    return program;
  }
  std::vector<std::vector<pto_kernel>> functions;
  for (const ProgramImage::Code& code : image.codes) {
    CompiledText text = load_text(code.name, code.object, code.functions);
    functions.push_back(std::move(text.functions));
    program.code.push_back(std::move(text.library));
  }
  const auto function_of = [&](const ProgramImage::Kernel& kernel) {
    const ProgramImage::Code& code = image.codes.at(kernel.code);
    for (size_t i = 0; i < code.functions.size(); ++i)
      if (code.functions[i] == kernel.function) return functions[kernel.code][i];
    fail({code.name + ": has no function \"" + kernel.function + "\"",
          "the image of a program names its functions", "compile the package again"});
  };
  if (image.kind == ProgramKind::Kernel) {
    const ProgramImage::Kernel& kernel = image.kernels.at(0);
    program.kernel = exported_kernel(function_of(kernel), kernel.names.at(0));
    return program;
  }
  PTO_ASSERT(image.kind == ProgramKind::Orchestration);
  program.orchestration.orchestrate =
      reinterpret_cast<int32_t (*)(const pto_runtime_api*, const pto_args*)>(
          reinterpret_cast<void (*)()>(functions.at(0).at(0)));
  for (const ProgramImage::Kernel& kernel : image.kernels)
    for (const std::string& name : kernel.names)
      program.orchestration.kernels[name] =
          exported_kernel(function_of(kernel), kernel.names.at(0));
  return program;
}

void NativeExecutor::load(uint32_t program, std::span<const char> image) {
  programs_[program] = loaded(image_of(image));
}

void NativeExecutor::run(uint32_t number, std::span<const pto_tensor> tensors,
                         const Numbers& scalars, double seconds_left) {
  const LoadedProgram& program = programs_.at(number);
  switch (program.kind) {
    case ProgramKind::Kernel:
      return run_kernel(program.kernel, tensors, scalars);
    case ProgramKind::Collective:
      return program.collective(tensors, scalars.bits());
    default: {
      RunOptions options;
      options.deadline_s = seconds_left;
      run_orchestration(program.orchestration, tensors, scalars, options);
    }
  }
}

}  // namespace pto
