// SPDX-License-Identifier: Apache-2.0
// Opens the part of OpenPTO that calls the kernels of an installed PyTorch. The build id of
// PyTorch's library names the part's file.
//
//     const pto_aten_library* torch = pto::aten::open_part("/path/to/site-packages/torch/lib");
//     torch->find("add.out");
//
// `python -m pto adapters build torch` builds it. Link with -ldl.
// Errors: pto::aten::Error with what, why and fix.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "pto/abi/aten.h"
#include "pto/base/error_message.hpp"

namespace pto::aten {

struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  Error(const std::string& what, const std::string& why, const std::string& fix)
      : std::runtime_error(error_message(what, why, fix)) {}
};

// Returns the build id among the notes of a library in hexadecimal digits, "" where there is none.
// A note is its sizes, a type, a name and a text, each padded to four bytes.
inline std::string build_id_in(const char* notes, size_t bytes) {
  std::string id;
  for (const char* end = notes + bytes; notes + sizeof(ElfW(Nhdr)) <= end;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const char* name = notes + sizeof note;
    const char* text = name + ((note.n_namesz + 3) & ~3u);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
      for (uint32_t i = 0; i < note.n_descsz; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(text[i]));
        id += digits;
      }
    notes = text + ((note.n_descsz + 3) & ~3u);
  }
  return id;
}

// Returns the build id of the loaded libtorch_cpu.so in hexadecimal digits, "" without one.
inline std::string build_id() {
  std::string id;
  const auto visit = [](dl_phdr_info* info, size_t, void* found) {
    if (!std::strstr(info->dlpi_name, "libtorch_cpu.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
      if (info->dlpi_phdr[i].p_type == PT_NOTE) {
        const char* notes =
            reinterpret_cast<const char*>(info->dlpi_addr) + info->dlpi_phdr[i].p_vaddr;
        *static_cast<std::string*>(found) += build_id_in(notes, info->dlpi_phdr[i].p_memsz);
      }
    return 1;
  };
  dl_iterate_phdr(visit, &id);
  return id;
}

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Returns where the part for the loaded PyTorch lies: in the cache folder of OpenPTO, which is
// PTO_CACHE_DIR, else openpto in the user's cache folder.
inline std::string part_path() {
  std::string cache = environment("PTO_CACHE_DIR");
  if (cache.empty() && !environment("XDG_CACHE_HOME").empty())
    cache = environment("XDG_CACHE_HOME") + "/openpto";
  if (cache.empty()) cache = environment("HOME") + "/.cache/openpto";
  return cache + "/torch/aten-" + build_id() + ".so";
}

// Loads PyTorch from this folder and opens the part for it; an empty folder means the PyTorch that
// the process has loaded. Returns the part's table, which lives as long as the process. Throws
// Error where PyTorch or the part cannot be loaded, or the part is of another version.
inline const pto_aten_library* open_part(const std::string& folder) {
  const auto reason = [] {
    const char* text = dlerror();
    return std::string(text ? text : "no reason is known");
  };
  const std::string name = folder.empty() ? "libtorch_cpu.so" : folder + "/libtorch_cpu.so";
  if (!dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL | (folder.empty() ? RTLD_NOLOAD : 0)))
    throw Error("PyTorch cannot be loaded: " + reason(),
                name + (folder.empty() ? " is not loaded in this process" : " is no library"),
                "pass the folder lib of an installed PyTorch");
  const std::string part = part_path();
  void* library = dlopen(part.c_str(), RTLD_NOW);
  if (!library)
    throw Error("the part of OpenPTO for this PyTorch cannot be loaded: " + reason(),
                "it is built for each PyTorch, known by its build id",
                "run: python -m pto adapters build torch");
  const auto table = reinterpret_cast<const pto_aten_library* (*)()>(dlsym(library, "pto_aten"));
  const pto_aten_library* found = table ? table() : nullptr;
  if (!found || found->abi_version != PTO_ATEN_ABI_VERSION)
    throw Error(
        part + " is of another version of OpenPTO",
        "this program has version " + std::to_string(PTO_ATEN_ABI_VERSION) + " of its table",
        "run: python -m pto adapters build torch");
  return found;
}

}  // namespace pto::aten
