// SPDX-License-Identifier: Apache-2.0
// Settings of a call beside its arguments, in the spelling of the public library.
//
//     infini::ops::Config config;
//     config.set_implementation_index(8);     // this slot, or an error with its reason
//     infini::ops::Handle handle;
//     handle.set_workspace(memory), handle.set_workspace_size_in_bytes(bytes);
//     Add::Call(handle, config, x, y, out);
//
// Without an index the lowest slot that takes the call runs it. Calls on the CPU are done when they
// return, whatever the stream, and kernels take their scratch memory themselves.
//
// Thread safety: none; a call copies what it needs.
#pragma once

#include <cstddef>

// Only std::unique_ptr is needed of <memory>, which takes a third as long to compile as all else.
#if __has_include(<bits/unique_ptr.h>)
#include <bits/unique_ptr.h>
#else
#include <memory>
#endif

namespace infini::ops {

class Handle {
 public:
  virtual ~Handle() = default;
  virtual std::unique_ptr<Handle> Clone() const { return std::make_unique<Handle>(*this); }

  void* stream() const { return stream_; }
  void* workspace() const { return workspace_; }
  std::size_t workspace_size_in_bytes() const { return bytes_; }
  void set_stream(void* stream) { stream_ = stream; }
  void set_workspace(void* workspace) { workspace_ = workspace; }
  void set_workspace_size_in_bytes(std::size_t bytes) { bytes_ = bytes; }

 private:
  void* stream_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t bytes_ = 0;
};

class Config {
 public:
  virtual ~Config() = default;
  virtual std::unique_ptr<Config> Clone() const { return std::make_unique<Config>(*this); }

  std::size_t implementation_index() const { return index_; }
  bool has_implementation_index() const { return is_asked_; }
  void set_implementation_index(std::size_t index) { index_ = index, is_asked_ = true; }

 private:
  std::size_t index_ = 0;
  bool is_asked_ = false;
};

}  // namespace infini::ops
