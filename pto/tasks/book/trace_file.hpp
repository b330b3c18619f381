// SPDX-License-Identifier: Apache-2.0
// TraceFile: writes a trace for Perfetto and chrome://tracing, whole or not at all.
//
//     TraceFile file(path, "chip");                                  // beside its place
//     file.name_lane(0, "worker 0");
//     file.slice(0, 1500, 300, "softmax_0", "\"task\":1");           // nanoseconds
//     file.finish("\"dropped\":0");                                  // now it is there
//
// Slices of a lane must nest or follow each other. Every function throws Error where the file
// cannot be written; the destructor leaves nothing behind unless finish() was called. A path that
// is no plain file, such as /dev/stdout, is written directly.
//
// Invariant: until finish(), what stood at the path stays.
// Thread safety: none; one thread writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace pto {

// Returns a text as a JSON string with its line breaks; leaves other control characters out.
std::string quoted(const std::string& text);

class TraceFile {
 public:
  TraceFile(const std::string& path, const std::string& process);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void name_lane(int lane, const std::string& name);
  // `arguments` and `other` are members of a JSON object. A slice that failed is drawn in red.
  void slice(int lane, uint64_t start_ns, uint64_t duration_ns, const std::string& name,
             const std::string& arguments, bool has_failed = false);
  void arrow(int from_lane, uint64_t from_ns, int to_lane, uint64_t to_ns);
  // Memory has its number from where it is allocated to where it is freed, if it is.
  void allocated(uint64_t number, uint64_t at_ns, const std::string& arguments);
  void freed(uint64_t number, uint64_t at_ns);
  void finish(const std::string& other);

 private:
  void memory(char phase, uint64_t number, uint64_t at_ns, const std::string& arguments);
  [[noreturn]] void refuse();

  const std::string path_;
  std::string place_, written_;  // its final path, and that written to; equal if direct
  std::FILE* file_ = nullptr;
  size_t arrows_ = 0;
};

}  // namespace pto
