// SPDX-License-Identifier: Apache-2.0
// MindSpore's interface for ahead-of-time custom operators on the CPU, as far as the adapter uses
// it, declared by hand, so that nothing of MindSpore is needed to build against it.
//
//     int fInit(int* ranks, int64_t** shapes, const char** dtypes, PrimitiveAttributes*);
//     int f(int n, void** data, int* ranks, int64_t** shapes, const char** dtypes, void* stream,
//           void* attributes);                               // inputs, then outputs
//     std::vector<int64_t> fInferShape(int* ranks, int64_t** shapes, PrimitiveAttributes*);
//     int fInferType(std::vector<int>, PrimitiveAttributes*);
//
// ops.Custom("lib.so:f", func_type="aot") calls them. With the attribute multi_output the last two
// return one element for each output. -1 is an unknown size, a shape of one -2 an unknown rank. An
// exception derived from std::exception becomes a RuntimeError with its text, except in fInit.
// Source: MindSpore's documentation of aot operators and its header custom_aot_extra.h (2.10).
// Invariant: std::string is the one of _GLIBCXX_USE_CXX11_ABI=0, MindSpore's own.
// Thread safety: that of MindSpore's calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

static_assert(_GLIBCXX_USE_CXX11_ABI == 0, "MindSpore passes strings of the old ABI");

namespace pto::mindspore_adapter {

// The state of a kernel from its Init on; MindSpore deletes it.
class KernelData {
 public:
  virtual ~KernelData() = default;
};

// The attributes of the primitive. The order of the virtual functions and of the fields is
// MindSpore's; unused ones at the end are left out.
class PrimitiveAttributes {
 public:
  virtual ~PrimitiveAttributes() = default;
  virtual bool has(std::string name) = 0;
  virtual bool boolean(std::string name) = 0;
  virtual int64_t integer(std::string name) = 0;
  virtual float real(std::string name) = 0;
  virtual std::string text(std::string name) = 0;

  void keep(KernelData* data) { data_ = data; }
  const KernelData* kept() const { return data_; }

 private:
  std::vector<size_t> workspace_;
  KernelData* data_ = nullptr;
};

}  // namespace pto::mindspore_adapter
