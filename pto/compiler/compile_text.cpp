// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "pto/base/file.hpp"
#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/load.hpp"
#include "pto/compiler/target.hpp"

namespace pto {
namespace {

const std::string kExported = "extern \"C\" __attribute__((visibility(\"default\"))) ";
const std::string kSlotKernel = "kernel_entry", kSlotAdapter = "pto_kernel_entry";

// Says whether the text has PTO_KERNEL(function, ...), with any white space in it. A regular
// expression of the standard library would take a stack as deep as the white space is long.
bool is_exported_by_macro(const std::string& function, const std::string& text) {
  constexpr std::string_view kMacro = "PTO_KERNEL";
  for (size_t at = text.find(kMacro); at != text.npos; at = text.find(kMacro, at + 1)) {
    size_t next = at + kMacro.size();
    const auto take = [&](std::string_view word) {
      next = std::min(text.find_first_not_of(" \t\r\n\f\v", next), text.size());
      const bool is_there = text.compare(next, word.size(), word) == 0;
      if (is_there) next += word.size();
      return is_there;
    };
    if (take("(") && take(function) && take(",")) return true;
  }
  return false;
}

// Prints declarations in front of the text, and an adapter to pto_kernel for the public form. A
// declaration is weak, so that a text without the function loads and the error can name it. A
// function that PTO_KERNEL exports is declared there, where a kernel may have the same name.
std::string declarations(const std::vector<std::string>& functions, const std::string& text,
                         TextForm form) {
  std::string all = form == TextForm::Orchestration ? "#include \"pto/runtime.h\"\n"
                                                    : "#include \"pto/abi/host.h\"\n";
  for (const std::string& function : functions) {
    if (form == TextForm::Orchestration) {
      all += kExported + "int32_t " + function + "(const pto_runtime_api*, const pto_args*);\n";
      continue;
    }
    if (is_exported_by_macro(function, text)) continue;
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

Source source_of(const std::string& name, const std::string& text,
                 const std::vector<std::string>& functions, const CompileOptions& options,
                 TextForm form, Target target) {
  std::string whole = declarations(functions, text, form);
  whole += "#line 1 \"" + file_name_of(name) + ".cpp\"\n" + text;
  return {name, whole, target, Source::Hosted, options.object, options.standard};
}

CompiledText found_in(std::shared_ptr<const Library> library,
                      const std::vector<std::string>& functions) {
  CompiledText compiled;
  for (const std::string& function : functions) {
    pto_kernel found = library->function(function);
    if (function == kSlotKernel) found = library->function(kSlotAdapter);
    compiled.functions.push_back(found);
  }
  compiled.library = std::move(library);
  return compiled;
}

}  // namespace

CompiledText compile_text(const std::string& name, const std::string& text,
                          const std::vector<std::string>& functions, const CompileOptions& options,
                          TextForm form) {
  const Source source = source_of(name, text, functions, options, form, target_of(options));
  return found_in(load(source, options.interrupted, options.cache_directory), functions);
}

SealedProgram compile_sealed(ProgramSpec spec, const std::string& text,
                             const CompileOptions& options) {
  const Target target = named_target(options.target);
  std::vector<std::string> functions;
  for (const LaunchSpec& launch : spec.launches) functions.push_back(launch.function);
  const Source source = source_of(spec.name, text, functions, options, TextForm::Kernels, target);
  std::string object = build_object(source, options.interrupted, options.cache_directory);
  return {machine_name(), target, "", std::move(spec), {}, std::move(object)};
}

CompiledText load_text(const std::string& name, const std::string& object,
                       const std::vector<std::string>& functions) {
  return found_in(load_object(name, object), functions);
}

}  // namespace pto
