// SPDX-License-Identifier: Apache-2.0
// CodeWriter: C++ text with indentation, and the spelling of values in it.
//
//     CodeWriter w;
//     w.open("for (...) {");
//     w.line("x += 1;");
//     w.close("}");
//
// Thread safety: one writer belongs to one thread.
#pragma once

#include <string>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

class CodeWriter {
 public:
  void line(const std::string& text);
  void open(const std::string& text);   // a line, then one step deeper
  void close(const std::string& text);  // one step back, then a line

  void block(const std::string& text);  // lines printed elsewhere, at this depth

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

// Spells a size as an expression over the int64_t variables s0, s1 ... What decides how much memory
// is taken is spelled by cpp_checked_size(), whose sums and products do not wrap.
std::string cpp_size(const Dim& dim);
std::string cpp_checked_size(const Dim& dim);

// Adds the symbols that a size names to `symbols`, ascending and without repetition.
void collect_symbols(const Dim& dim, std::vector<int>* symbols);

// Adds the quotients by what may be 0 among the sizes of a node, or of the kernel that it is; each
// once.
void collect_quotients(const Node& node, std::vector<Dim>* quotients);

// Returns the type in which registers hold values of `dtype`: float for f16 and bf16, lane masks
// for bool. Throws pto::Error for types without a compiled form.
std::string compute_type(DType dtype);

std::string cpp_string(const std::string& text);  // with its quotes

// Spells the user's line that made a node, the first of these; lines of the package say nothing
// about a mistake.
std::string cpp_line(const std::vector<Location>& locations);

// Spells a literal of the compute type.
std::string cpp_constant(const std::variant<double, int64_t>& value, DType dtype);

}  // namespace pto
