// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/library.hpp"

#include <dlfcn.h>

#include <system_error>

#include "pto/base/error.hpp"
#include "pto/base/file.hpp"

namespace pto {

Library::Library(std::string name, const std::string& path)
    : name_(std::move(name)), path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr && not_loaded().empty()) return;
  const std::string text = handle_ == nullptr ? dlerror() : not_loaded();
  if (handle_ != nullptr) dlclose(handle_);
  fail({name_ + ": the compiled kernel cannot be loaded: " + text,
        "it must be an object for this machine whose functions libpto or the C library provide",
        "call only functions that the headers of pto/isa declare"},
       ErrorKind::Runtime);
}

Library::~Library() { dlclose(handle_); }

std::string Library::not_loaded() const {
  const auto ask = reinterpret_cast<const char* (*)()>(dlsym(handle_, "pto_not_loaded"));
  return ask == nullptr ? "" : ask();
}

pto_kernel Library::function(const std::string& symbol) const {
  if (void* found = dlsym(handle_, symbol.c_str())) return reinterpret_cast<pto_kernel>(found);
  fail({name_ + ": the compiled kernel exports no function \"" + symbol + "\"",
        "functions are found by name, as extern \"C\" int32_t name(const pto_args*) or in the "
        "public form extern \"C\" void kernel_entry(int64_t*)",
        "define " + symbol + " in the text or ask for a function that it defines"},
       ErrorKind::Runtime);
}

std::string Library::object() const {
  if (std::optional<std::string> content = read_file(path_)) return *std::move(content);
  fail({name_ + ": the compiled object " + path_ + " cannot be read any more",
        "it was compiled in a temporary folder, or evicted from the cache since",
        "set PTO_CACHE_DIR to a folder that can be written, and compile again"},
       ErrorKind::Runtime);
}

std::shared_ptr<const Library> load_object(const std::string& name, const std::string& object) {
  const std::string parent = temporary_directory();
  try {
    const WorkFolder work(parent, "openpto-");
    const std::string path = work.path() + "/" + file_name_of(name) + ".so";
    write_file(path, object);
    return std::make_shared<Library>(name, path);
  } catch (const std::system_error& error) {
    fail(
        {name + ": its object cannot be written to " + parent + " (" + error.code().message() + ")",
         "objects are loaded from files", "free some space, or set TMPDIR"},
        ErrorKind::Runtime);
  }
}

}  // namespace pto
