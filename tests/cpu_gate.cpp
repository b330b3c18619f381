// SPDX-License-Identifier: Apache-2.0
// Runs a test program only where the CPU has the instructions that it was compiled for.
//
//     cpu_gate avx512 ./isa_avx512_test --gtest_filter=Exp.*
//
// Removes first what an earlier run noted in the file PTO_COVERAGE_FILE.
// Exit code: the program's, or 77 ("skipped" for ctest). A check inside the program would come too
// late: its static initialisers already run such instructions.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static bool runs(const char* target) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!std::strcmp(target, "avx2")) return avx2;
  if (!std::strcmp(target, "avx512"))
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return !std::strcmp(target, "portable");
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "cpu_gate: needs TARGET PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  if (const char* noted = std::getenv("PTO_COVERAGE_FILE")) std::remove(noted);
  if (!runs(argv[1])) {
    std::printf("skipped: this CPU does not run the target %s\n", argv[1]);
    return 77;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 2;
}
