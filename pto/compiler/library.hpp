// SPDX-License-Identifier: Apache-2.0
// Library: the loaded code of one source, from the cache or fresh from the compiler.
//
//     std::shared_ptr<const Library> library = load({"twice", text, Target::Avx2}, interrupted);
//     pto_kernel twice = library->function("twice");
//
// Invariant: equal sources in one cache folder give one library a process while it lives, and one
// compilation even when several threads or processes ask at once. A folder that cannot be written
// never keeps code from running: load() then compiles in a private temporary folder, with one
// warning.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pto/abi/host.h"
#include "pto/compiler/toolchain.hpp"

namespace pto {

class Library {
 public:
  // Throws pto::Error where the object cannot be loaded.
  Library(std::string name, const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Returns the exported function; throws pto::Error where the object has none of that name.
  pto_kernel function(const std::string& symbol) const;

  // Returns the bytes of the loaded file; throws pto::Error where it has gone since.
  std::string object() const;

 private:
  // Returns why this code could not load its further code (pto/tasks/precompiled.h), or "".
  std::string not_loaded() const;

  std::string name_, path_;
  void* handle_;
};

// Throws as Build does. `cache_directory`: "" is that of the settings.
std::shared_ptr<const Library> load(const Source& source, const std::function<bool()>& interrupted,
                                    const std::string& cache_directory = "");

// Loads the bytes of an object, as object() gave them, perhaps on another machine. Throws
// pto::Error where they cannot be loaded or no folder can hold them.
std::shared_ptr<const Library> load_object(const std::string& name, const std::string& object);

}  // namespace pto
