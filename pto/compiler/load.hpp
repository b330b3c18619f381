// SPDX-License-Identifier: Apache-2.0
// load(): the loaded code of one source, from the cache or fresh from the compiler.
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

#include "pto/compiler/toolchain.hpp"
#include "pto/launch/library.hpp"

namespace pto {

// Throws as Build does. `cache_directory`: "" is that of the settings.
std::shared_ptr<const Library> load(const Source& source, const std::function<bool()>& interrupted,
                                    const std::string& cache_directory = "");

// Returns the bytes of the object of a source, perhaps for another CPU; loads nothing. Throws as
// load() does.
std::string build_object(const Source& source, const std::function<bool()>& interrupted,
                         const std::string& cache_directory = "");

}  // namespace pto
