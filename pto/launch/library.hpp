// SPDX-License-Identifier: Apache-2.0
// Library: the loaded code of one shared object.
//
//     std::shared_ptr<const Library> library = load_object("twice", bytes);
//     pto_kernel twice = library->function("twice");
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <memory>
#include <string>

#include "pto/abi/host.h"

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

// Loads the bytes of an object, as object() gave them, perhaps on another machine. Throws
// pto::Error where they cannot be loaded or no folder can hold them.
std::shared_ptr<const Library> load_object(const std::string& name, const std::string& object);

}  // namespace pto
