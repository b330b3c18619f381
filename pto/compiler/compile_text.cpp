// SPDX-License-Identifier: Apache-2.0
#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/library.hpp"
#include "pto/compiler/target.hpp"

namespace pto {

CompiledText compile_text(const std::string& name, const std::string& text,
                          const std::vector<std::string>& functions,
                          const CompileOptions& options) {
  std::string whole = "#include \"pto/isa/host.hpp\"\n";
  for (const std::string& function : functions) {
    whole += "extern \"C\" __attribute__((visibility(\"default\"))) int32_t " + function +
             "(const pto_args*);\n";
  }
  whole += "#line 1 \"" + file_name_of(name) + ".cpp\"\n" + text;
  Source source{name, whole, target_of(options), /*hosted=*/true};
  const std::shared_ptr<const Library> library = load(source, options.interrupted);
  CompiledText compiled;
  for (const std::string& function : functions) {
    compiled.functions.push_back(library->function(function));
  }
  compiled.library = library;
  return compiled;
}

}  // namespace pto
