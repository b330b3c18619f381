// SPDX-License-Identifier: Apache-2.0
// Checks of programs that call ATen: each that fails prints a line and is counted.
//
//     check(out[0] == 3, "add.out");
//     refused([&] { torch.call("add", {}); }, "self");   // an error that says so, why, and the fix
#pragma once
#include <cstdio>
#include <pto/aten.hpp>
#include <string>

inline int failures = 0;

inline void check(bool holds, const char* what) {
  if (!holds) std::printf("FAILED: %s\n", what), ++failures;
}

template <class F>
void refused(F call, const char* text) {
  try {
    call();
    std::printf("FAILED: nothing was refused: %s\n", text), ++failures;
  } catch (const pto::aten::Error& error) {
    const std::string said = error.what();
    const bool is_whole = said.find("why:") != said.npos && said.find("fix:") != said.npos;
    if (said.find(text) == said.npos || !is_whole)
      std::printf("FAILED: %s\n  is not: %s\n", said.c_str(), text), ++failures;
  }
}
