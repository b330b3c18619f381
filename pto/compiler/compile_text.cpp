// SPDX-License-Identifier: Apache-2.0
#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/library.hpp"
#include "pto/compiler/target.hpp"

namespace pto {
namespace {

const std::string kExported = "extern \"C\" __attribute__((visibility(\"default\"))) ";
const std::string kSlotKernel = "kernel_entry", kSlotAdapter = "pto_kernel_entry";

// Declarations in front of the text, and an adapter to pto_kernel where it has the public form.
// The declaration is weak, so that a text without the function loads and the error can name it.
std::string declarations(const std::vector<std::string>& functions) {
  std::string all = "#include \"pto/isa/host.hpp\"\n";
  for (const std::string& function : functions) {
    if (function != kSlotKernel) {
      all += kExported + "int32_t " + function + "(const pto_args*);\n";
      continue;
    }
    all += kExported + "__attribute__((weak)) void " + kSlotKernel + "(int64_t*);\n";
    all += kExported + "int32_t " + kSlotAdapter + "(const pto_args* args) { return " +
           "pto_enter_slots(" + kSlotKernel + ", args); }\n";
  }
  return all;
}

}  // namespace

CompiledText compile_text(const std::string& name, const std::string& text,
                          const std::vector<std::string>& functions,
                          const CompileOptions& options) {
  std::string whole = declarations(functions);
  whole += "#line 1 \"" + file_name_of(name) + ".cpp\"\n" + text;
  Source source{name, whole, target_of(options), /*hosted=*/true};
  const std::shared_ptr<const Library> library = load(source, options.interrupted);
  CompiledText compiled;
  for (const std::string& function : functions) {
    pto_kernel found = library->function(function);
    if (function == kSlotKernel) found = library->function(kSlotAdapter);
    compiled.functions.push_back(found);
  }
  compiled.library = library;
  return compiled;
}

}  // namespace pto
