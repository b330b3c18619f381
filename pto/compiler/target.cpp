// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/target.hpp"

#include "pto/base/error.hpp"

namespace pto {

Target named_target(const std::string& name) {
  if (name.empty()) return target_now();  // pto.config.target sets it at any time
  for (const Target target : {Target::Portable, Target::Avx2, Target::Avx512})
    if (pto::name(target) == name) return target;
  fail({"target \"" + name + "\" is unknown", "a target names the instructions that code may use",
        "leave the target out, or pass portable, avx2 or avx512"});
}

Target target_of(const CompileOptions& options) {
  const Target target = named_target(options.target);
  if (target <= machine().best_target) return target;
  fail({"target " + options.target + " was asked for, but this CPU supports at most " +
            std::string(name(machine().best_target)),
        "code for a target uses all its instructions",
        "leave the target out, or ask for " + std::string(name(machine().best_target))});
}

}  // namespace pto
