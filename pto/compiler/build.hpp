// SPDX-License-Identifier: Apache-2.0
// Build: the one way from a source to a library on disk, for kernels and for adapters.
//
//     const Build one({"twice", text, Target::Avx2}, settings());
//     auto path = one.find();                    // in the cache folder, ready to load, or nothing
//     if (!path) path = one.run(interrupted);    // compiles it
//
// The file's name holds the digest of all that decides its content: source, headers, flags and
// compiler.
//
// Invariant: builds of one source at once, in threads and processes, compile once, unless one of
// them is stopped. Whoever waits for another process does so for a limited time, and says so.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <system_error>

#include "pto/compiler/cache.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {

class Build {
 public:
  // `folder`: "" is the cache folder of the settings. Throws where a file of the source cannot be
  // read, and as find_toolchain() does, unless a compiler that is gone left the library there.
  Build(Source source, Settings settings, std::string folder = "");

  const Source& source() const { return source_; }
  const Settings& settings() const { return settings_; }
  const std::string& folder() const { return folder_; }
  const std::string& entry() const { return entry_; }  // the file's name without .so
  std::string path() const { return folder_ + "/" + entry_ + ".so"; }

  // Returns the path of the library, if it is there, whole.
  std::optional<std::string> find() const;

  // Returns the path of the library; compiles it where it is missing, or always with `again`.
  // Throws as compile_object() does, and std::system_error where the folder cannot be used, or was
  // cleared meanwhile: see despite_removal(). Where a compiler fails, the error says where the
  // source, or an extension's output, is kept.
  std::string run(const std::function<bool()>& interrupted, bool again = false) const;

  // Compiles without the cache into the folder `work`; keeps what failed in the folder `kept`.
  std::string compile(const std::string& work, const std::string& kept,
                      const std::function<bool()>& interrupted) const;

 private:
  // Takes a compiler, and the name that the file has with it.
  void take(Toolchain toolchain);

  // Compiles as compile() does, with the parsed header of kernels where there is one.
  std::string compile_with_header(const std::string& work, const Cache& cache,
                                  const std::function<bool()>& interrupted) const;

  Source source_;
  Settings settings_;
  Toolchain toolchain_;
  std::string folder_, entry_;
};

// Calls action(), which uses files of a cache folder, and again where they are gone: another
// process may evict entries or clear the folder at any time. Throws what the last of a few calls
// throws.
template <class Action>
auto despite_removal(const Action& action) {
  constexpr int kCalls = 4;
  for (int call = 1;; ++call) try {
      return action();
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::no_such_file_or_directory || call == kCalls) throw;
    }
}

// Returns the digest over the source, the headers that it may include, flags, compiler, target and
// ABI version. The headers of kernels are read once a process; those of an extension are the ones
// that its files include.
std::string source_digest(const Source& source, const Toolchain& toolchain,
                          const std::string& include_directory);

}  // namespace pto
