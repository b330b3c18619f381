// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/package.hpp"

#include <algorithm>
#include <cstring>

#include "pto/base/error.hpp"
#include "pto/base/file.hpp"
#include "pto/base/sha256.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

// The form of the file, as pto/container.py writes it.
constexpr std::string_view kMagic = "OpenPTO package\n", kFirst = "{\"kind\": \"";
constexpr uint32_t kVersion = 1;
constexpr size_t kPrefix = kMagic.size() + sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kDigest = sizeof(Digest);

template <class T>
T number_at(std::string_view content, size_t place) {
  T number;
  std::memcpy(&number, content.data() + place, sizeof number);
  return number;
}

// Returns the payload of a file of the kind "program" or "functions".
std::string_view payload_of(const std::string& shown, std::string_view content) {
  const auto refuse = [&shown](const std::string& what, std::string why, std::string fix) {
    fail({shown + " " + what, std::move(why), std::move(fix)});
  };
  if (content.empty() || content.substr(0, kMagic.size()) != kMagic.substr(0, content.size()))
    refuse("is no package", "its first bytes are others", "pass a file of f.package()");
  const std::string broken = "was truncated or altered";
  if (content.size() < kPrefix + kDigest)
    refuse(broken, "it has " + std::to_string(content.size()) + " bytes", "package it again");
  const auto version = number_at<uint32_t>(content, kMagic.size());
  if (version != kVersion)
    refuse("has version " + std::to_string(version) + " of the format",
           "this pto reads version " + std::to_string(kVersion), "package it with this version");
  const std::string_view all = content.substr(0, content.size() - kDigest);
  const Digest digest = Sha256().update(all).digest();
  if (std::memcmp(digest.data(), content.data() + all.size(), kDigest) != 0)
    refuse(broken, "its SHA-256 does not fit its content", "package or copy it again");
  const std::string_view rest = all.substr(kPrefix);
  const size_t length = std::min<size_t>(number_at<uint64_t>(content, kPrefix - 8), rest.size());
  const std::string_view header = rest.substr(0, length);
  const bool has_kind = header.substr(0, kFirst.size()) == kFirst;
  const size_t end = has_kind ? header.find('"', kFirst.size()) : header.npos;
  const std::string kind(end == header.npos ? ""
                                            : header.substr(kFirst.size(), end - kFirst.size()));
  if (kind != "program" && kind != "functions")
    refuse("holds no jitted function", "its header says '" + kind + "'",
           "pass a file of f.package() or pto.package()");
  return rest.substr(length);
}

bool serves(const ProgramSpec& spec, const std::vector<TensorClass>& tensors) {
  const auto fits = [](const TensorSpec& input, const TensorClass& given) {
    if (input.dtype != given.dtype || input.shape.size() != static_cast<size_t>(given.rank))
      return false;
    for (size_t axis = 0; axis < input.shape.size(); ++axis)
      if (is_one(input.shape[axis]) != ((given.ones >> axis & 1) != 0)) return false;
    return true;
  };
  return std::equal(spec.inputs.begin(), spec.inputs.end(), tensors.begin(), tensors.end(), fits);
}

// Says whether two programs serve one call, and differ in their targets.
bool is_same_call(const SealedProgram& a, const SealedProgram& b) {
  const auto lie_alike = [](const TensorSpec& x, const TensorSpec& y) {
    return x.strides == y.strides;
  };
  return a.text == b.text && a.target != b.target && a.spec.inputs.size() == b.spec.inputs.size() &&
         std::equal(a.spec.inputs.begin(), a.spec.inputs.end(), b.spec.inputs.begin(), lie_alike);
}

// Orders targets: those that this process asks for, the best first; those that the CPU has; others.
int merit(Target target) {
  constexpr int kTargets = static_cast<int>(Target::Avx512) + 1;
  if (target <= machine().target) return kTargets + static_cast<int>(target);
  return target <= machine().best_target ? kTargets - static_cast<int>(target)
                                         : -static_cast<int>(target);
}

// Returns the programs of a payload, one for each call: programs of a call for several targets
// stand one after another.
std::vector<SealedProgram> programs_of(const std::string& shown, std::string_view payload) {
  std::vector<SealedProgram> kept;
  const char* rest = payload.data();
  const char* const end = rest + payload.size();
  while (rest != end) {
    SealedProgram sealed = unseal(shown, &rest, end);
    if (kept.empty() || !is_same_call(kept.back(), sealed))
      kept.push_back(std::move(sealed));
    else if (merit(sealed.target) > merit(kept.back().target))
      kept.back() = std::move(sealed);
  }
  return kept;
}

// Returns the name of the function in "attend(q: f32[s0, s1])".
std::string function_of(const SealedProgram& program) {
  return program.text.substr(0, program.text.find('('));
}

// Leaves the programs of one function; throws pto::Error where that is not one.
void select(const std::string& shown, const std::string& function,
            std::vector<SealedProgram>* programs) {
  std::vector<std::string> names;
  for (const SealedProgram& one : *programs)
    if (names.empty() || names.back() != function_of(one)) names.push_back(function_of(one));
  const std::string known = joined(names, ", ", [](const std::string& name) { return name; });
  if (function.empty() && names.size() > 1)
    fail({shown + " holds " + std::to_string(names.size()) + " functions", "they are " + known,
          "say which: pto_program_open_function(path, \"" + names[0] + "\")"});
  if (function.empty()) return;
  if (std::find(names.begin(), names.end(), function) == names.end())
    fail({shown + " has no function " + function, "it holds " + known, "ask for one of these"});
  std::erase_if(*programs, [&](const SealedProgram& one) { return function_of(one) != function; });
}

}  // namespace

ProgramPackage::ProgramPackage(std::string shown, std::string_view payload)
    : ProgramPackage(shown, programs_of(shown, payload)) {}

ProgramPackage::ProgramPackage(std::string shown, std::vector<SealedProgram> programs)
    : shown_(std::move(shown)) {
  for (SealedProgram& sealed : programs) {
    check_machine(shown_, sealed, machine_name(), machine().best_target);
    auto program = load_program(sealed);
    variants_.push_back(
        {std::move(sealed.text), std::move(sealed.numbers), sealed.target, std::move(program)});
  }
}

ProgramPackage ProgramPackage::read(const std::string& path, const std::string& function) {
  const std::string shown = path.substr(path.rfind('/') + 1);
  const std::optional<std::string> content = read_file(path);
  if (!content)
    fail({"the package " + path + " cannot be read", std::strerror(errno), "check the path"},
         ErrorKind::Runtime);
  std::vector<SealedProgram> programs = programs_of(shown, payload_of(shown, *content));
  select(shown, function, &programs);
  return ProgramPackage(shown, std::move(programs));
}

const ProgramPackage::Variant* ProgramPackage::choose(const std::vector<TensorClass>& tensors,
                                                      const Meant& meant) const {
  const Variant* best = nullptr;
  size_t fewest = 0;
  for (const Variant& variant : variants_) {
    const ProgramSpec& spec = variant.program->spec();
    if (!serves(spec, tensors) || !meant(variant)) continue;
    size_t copies = 0;
    for (size_t i = 0; i < tensors.size(); ++i)
      copies += wants_copy(spec.inputs[i], tensors[i].strides);
    if (best != nullptr && copies >= fewest) continue;
    best = &variant;
    fewest = copies;
  }
  return best;
}

std::string ProgramPackage::describe() const {
  return joined(variants_, "\n", [](const Variant& variant) { return variant.text; });
}

}  // namespace pto
