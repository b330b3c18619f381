// SPDX-License-Identifier: Apache-2.0
// Toolchain: the C++ compiler of this machine, and how it makes a shared object of a text.
//
//     const Toolchain toolchain = find_toolchain(settings());
//     compile_object(toolchain, {"softmax", text, Target::Avx2}, work.path(), settings(), {});
//
// The flags are the fastest set measured with g++ 12: without start files, linker plugin and unwind
// tables a kernel of 60 lines takes about 40 ms, with the defaults 55 ms.
// Thread safety: all functions may be called from any thread; one folder belongs to one call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/base/machine.hpp"
#include "pto/compiler/settings.hpp"

namespace pto {

struct Toolchain {
  enum Family { Gcc, Clang } family = Gcc;
  std::string path;
  int major = 0;
  std::string version;   // the compiler's own text
  std::string identity;  // changes when the compiler does
};

// What becomes one shared object.
struct Source {
  std::string name;  // of the kernel: names files, appears in errors
  std::string text;
  Target target = Target::Portable;
  // A user's text: may use the standard library, exceptions and static objects, and warnings are
  // left on. Generated text may not, and compiles faster.
  bool hosted = false;
  // Bytes of an ELF object that another compiler made: a relocatable one is linked with the text,
  // another lies beside it as "precompiled.so", for .incbin. "": none.
  std::string object = {};
  std::string standard = "c++17";  // the language level, as the compiler's -std= names it
};

// The compiler that settings.compiler names, else the first usable one of g++, c++, clang++ and
// their versioned names on PATH. Throws pto::Error where there is none (g++ 12, clang 14 at least).
// What a compiler says of itself is remembered in the cache folder.
Toolchain find_toolchain(const Settings& settings);

// All flags that decide the object's content.
std::vector<std::string> compile_flags(const Toolchain& toolchain, const Source& source);

// The caller's `interrupted` said stop.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// The compiler has errors in generated text: a defect of ours, whatever the graph was.
class RefusedCode : public Error {
 public:
  using Error::Error;
};

// Writes source and object into `folder`, which must exist, and returns the object's path. Throws
// pto::Error with the compiler's first error where it fails, hangs, dies or cannot be started, of
// which RefusedCode is one, and Interrupted; `folder` then holds what was written.
// std::system_error: the folder is unusable.
std::string compile_object(const Toolchain& toolchain, const Source& source,
                           const std::string& folder, const Settings& settings,
                           const std::function<bool()>& interrupted);

// "softmax" of "softmax (2, 3)": what may stand in a file name.
std::string file_name_of(const std::string& name);

}  // namespace pto
