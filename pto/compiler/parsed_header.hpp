// SPDX-License-Identifier: Apache-2.0
// ParsedHeader: the header of generated kernels, that of programs, or that of kernels written by
// hand, as g++ keeps it once parsed, so that each compiler of a kernel is done 50 ms sooner, of a
// program 110 ms, of a kernel written by hand 100 ms.
//
//     const ParsedHeader header(source, toolchain, settings, cache);
//     if (header.find()) compile_object(toolchain, header.used_by(source), ...);
//     else if (header.pays()) header.make(interrupted);
//
// It lies in the cache folder as an entry, with a key of all that decides its content.
//
// Invariant: a kernel's object has the same bytes with it and without.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <functional>
#include <string>

#include "pto/compiler/cache.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {

class ParsedHeader {
 public:
  ParsedHeader(const Source& source, Toolchain toolchain, Settings settings, Cache cache);

  // True where it is there, whole. A process reads it once.
  bool find() const;

  // True where it is not there, the source would use it, and the folder holds so many kernels that
  // as many more earn the time that making it takes; of texts by hand, where this process has
  // compiled so many.
  bool pays() const;

  // Returns the source with the options that use it.
  Source used_by(Source source) const;

  // Makes it, once a process. Does nothing where the compiler fails, since it is no need.
  void make(const std::function<bool()>& interrupted) const;

  // Removes what a compiler could not use; this process makes it no more.
  void remove() const;

 private:
  std::string path() const { return cache_.directory() + "/" + entry_ + ".gch"; }

  Source header_;
  Toolchain toolchain_;
  Settings settings_;
  Cache cache_;
  std::string entry_;  // "": the source does not use it
};

}  // namespace pto
