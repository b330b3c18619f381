// SPDX-License-Identifier: Apache-2.0
// ProgramImage: a program as bytes, which a worker process loads.
//
//     std::string bytes = to_bytes(image);
//     ProgramImage same = image_of(bytes);
//
// Invariant: image_of(to_bytes(image)) equals image.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pto {

enum class ProgramKind : uint32_t {
  Orchestration,  // codes[0].functions[0] submits the kernels
  Kernel,         // kernels[0] runs on the task's arguments
  Collective,     // a built-in function, by `name` (collectives.hpp)
  Python          // `payload` is for the Python worker
};

struct ProgramImage {
  struct Code {  // one source as a shared object
    std::string name, object;
    std::vector<std::string> functions;
  };
  struct Kernel {
    std::vector<std::string> names;  // what submit() may say; errors tell the first
    uint32_t code;                   // in `codes`
    std::string function;
  };
  ProgramKind kind = ProgramKind::Orchestration;
  std::string name, payload;
  std::vector<Code> codes;
  std::vector<Kernel> kernels;
};

std::string to_bytes(const ProgramImage& image);
// Throws Error for bytes that are no image.
ProgramImage image_of(std::span<const char> bytes);

}  // namespace pto
