// SPDX-License-Identifier: Apache-2.0
// compile_units(): compiles the parts of a source side by side and links them.
//
//     const std::vector<Unit> units = units_of(source.text, machine().cores);
//     const bool is_done = compile_units(units, 2, toolchain, source, folder, object,
//                                        settings(), {});
//
// Thread safety: may be called from any thread; one folder belongs to one call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pto/compiler/toolchain.hpp"
#include "pto/compiler/units.hpp"

namespace pto {

// Writes the library to the path `object`; `most` compilers run at one time. Returns false where
// one fails: the whole source then compiles, or tells its errors better. Throws Interrupted as
// compile_object() does, and std::system_error where the folder is unusable.
bool compile_units(const std::vector<Unit>& units, int most, const Toolchain& toolchain,
                   const Source& source, const std::string& folder, const std::string& object,
                   const Settings& settings, const std::function<bool()>& interrupted);

}  // namespace pto
