// SPDX-License-Identifier: Apache-2.0
// ProgramPackage: the loaded variants of one function of a package (pto/container.py).
//
//     const ProgramPackage package = ProgramPackage::read("f.pto");
//     const auto* variant = package.choose(classes, [](const auto&) { return true; });
//     Call call(*variant->program, tensors, scalars);
//
// A call that was compiled for several targets is served by the best that runs here.
//
// Invariant: a variant serves tensors of its element types and ranks, whose sizes are 1 where its
// own are; one that has gaps where the code wants none is copied by the caller.
// Thread safety: immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pto/launch/sealed.hpp"
#include "pto/launch/signature.hpp"

namespace pto {

class ProgramPackage {
 public:
  struct Variant {
    std::string text;
    std::vector<SealedNumber> numbers;
    Target target;
    std::shared_ptr<const Program> program;
  };

  // Reads the programs of a payload, one after another; `shown` names the file in errors. Throws
  // pto::Error where one cannot run here.
  ProgramPackage(std::string shown, std::string_view payload);

  // Reads a function of a file, "": its only one. Throws pto::Error where the file is missing, no
  // package of functions, or damaged, and where it has no such function.
  static ProgramPackage read(const std::string& path, const std::string& function = "");

  const std::string& shown() const { return shown_; }
  const std::vector<Variant>& variants() const { return variants_; }

  // Returns the variant that serves these tensors with the fewest copies among those that are
  // `meant`; null without one.
  using Meant = std::function<bool(const Variant&)>;
  const Variant* choose(const std::vector<TensorClass>& tensors, const Meant& meant) const;

  std::string describe() const;  // the texts of all variants, a line each

 private:
  ProgramPackage(std::string shown, std::vector<SealedProgram> programs);

  std::string shown_;
  std::vector<Variant> variants_;
};

// Says whether the code takes no such tensor as it lies.
inline bool wants_copy(const TensorSpec& input, StrideClass given) { return given > input.strides; }

}  // namespace pto
