// SPDX-License-Identifier: Apache-2.0
// Toolchain: the C++ compiler of this machine, and how it makes a shared object of a text.
//
//     const Toolchain toolchain = find_toolchain(settings());
//     compile_object(toolchain, {"softmax", text, Target::Avx2}, work.path(), settings(), {});
//
// The flags are the fastest set measured with g++ 12: without start files, linker plugin and unwind
// tables a kernel of 60 lines takes about 40 ms, with the defaults 55 ms. A long text is compiled
// in units side by side: units.hpp.
//
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

// The text of one shared object, and how to compile it.
struct Source {
  // Generated text is ours and compiles fastest. A user's Hosted text may use the standard library,
  // exceptions and static objects, and warnings are left on. An Extension is made of files and
  // another package's headers, such as those of a framework, with the flags that the package needs.
  enum Kind { Generated, Hosted, Extension };

  std::string name;  // the kernel's: names files, appears in errors
  std::string text;
  Target target = Target::Portable;
  Kind kind = Generated;
  // The bytes of an ELF object that another compiler made. A relocatable one is linked with the
  // text; any other lies beside it as "precompiled.so", for .incbin. "": none.
  std::string object = {};
  std::string standard = "c++17";  // the language level, as the compiler's -std= names it

  // An Extension's files. The compiler takes them as one, since the package's headers cost more
  // than they do, or each by itself: more time, but less memory.
  std::vector<std::string> files = {};
  bool is_apart = false;
  std::vector<std::string> identity = {};  // the version and build of the package
  std::vector<std::string> options = {};   // language level, definitions
  std::vector<std::string> folders = {};   // -I and -isystem; where things lie is not in the key
  std::vector<std::string> links = {};     // -L and -l
};

// Returns the compiler that settings.compiler names, else the first usable one of g++, c++, clang++
// and their versioned names on PATH. Throws pto::Error where there is none (g++ 12, clang 14 at
// least). The cache folder keeps each compiler's answer about its version.
Toolchain find_toolchain(const Settings& settings);

// Notes in a cache folder that this compiler made kernels there, for processes that find none.
void record_toolchain(const Toolchain& toolchain, const std::string& folder);

// Returns the compilers that made kernels of a cache folder, the last one first.
std::vector<Toolchain> recorded_toolchains(const std::string& folder);

// Returns the flags without which this compiler writes wrong moves, "" where it needs none.
std::string_view move_flags(const Toolchain& toolchain, Target target);

// Returns all flags that decide the object's content.
std::vector<std::string> compile_flags(const Toolchain& toolchain, const Source& source);

// Returns the command that compiles a part of the source and links nothing, as far as the folders
// of its headers.
std::vector<std::string> part_command(const Toolchain& toolchain, const Source& source,
                                      const Settings& settings);

// Returns what stands behind a source, or its objects, where the compiler links them.
std::vector<std::string> link_arguments(const Source& source);

// Thrown when the caller's `interrupted` returns true.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// Thrown when the compiler finds errors in generated text: a defect of ours, whatever the graph.
class RefusedCode : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void fail_interrupted(const Source& source);

// Returns the time after which the source's compiler is killed.
double compile_seconds(const Source& source, const Settings& settings);

// Writes source and object into `folder`, which must exist, and returns the object's path. Throws
// Interrupted, and pto::Error with the compiler's first error where it fails, hangs, dies or cannot
// be started (RefusedCode is one of these); `folder` then keeps the files so far, and the
// compiler's command and output as "output.log". Throws std::system_error where the folder is
// unusable.
std::string compile_object(const Toolchain& toolchain, const Source& source,
                           const std::string& folder, const Settings& settings,
                           const std::function<bool()>& interrupted);

// Lets the compiler, a g++, parse the text of `header` into `folder` and keep the result there.
// Returns its path, or "" where the compiler fails.
std::string parse_header(const Toolchain& toolchain, const Source& header,
                         const std::string& folder, const Settings& settings,
                         const std::function<bool()>& interrupted);

}  // namespace pto
