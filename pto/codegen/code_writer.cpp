// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/code_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace pto {

void CodeWriter::line(const std::string& text) {
  text_.append(static_cast<size_t>(depth_) * 2, ' ').append(text).push_back('\n');
}

void CodeWriter::open(const std::string& text) {
  line(text);
  ++depth_;
}

void CodeWriter::close(const std::string& text) {
  --depth_;
  line(text);
}

void CodeWriter::block(const std::string& text) {
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    line(text.substr(begin, end - begin));
  }
}

namespace {

std::string spelled(const Dim& dim, bool is_checked) {
  if (dim.is_constant()) return std::to_string(dim.value());
  if (dim.is_symbol()) return "s" + std::to_string(dim.value());
  const std::string a = spelled(dim.left(), is_checked), b = spelled(dim.right(), is_checked);
  const auto infix = [&](const char* op) { return "(" + a + op + b + ")"; };
  const auto call = [&](const char* function) {
    return std::string(function) + "(" + a + ", " + b + ")";
  };
  switch (dim.op()) {
    case DimOp::Add:
      return is_checked ? call("add_sizes") : infix(" + ");
    case DimOp::Sub:
      return infix(" - ");
    case DimOp::Mul:
      return is_checked ? call("multiply_sizes") : infix(" * ");
    case DimOp::FloorDiv:
      return call("floor_div");
    case DimOp::Mod:
      return call("floor_mod");
    case DimOp::Min:
      return call("min_size");
    default:
      return call("max_size");
  }
}

}  // namespace

std::string cpp_size(const Dim& dim) { return spelled(dim, false); }
std::string cpp_checked_size(const Dim& dim) { return spelled(dim, true); }

void collect_symbols(const Dim& dim, std::vector<int>* symbols) {
  each_symbol(dim, [&](int64_t value) {
    const int symbol = static_cast<int>(value);
    const auto at = std::lower_bound(symbols->begin(), symbols->end(), symbol);
    if (at == symbols->end() || *at != symbol) symbols->insert(at, symbol);
  });
}

void collect_quotients(const Node& node, std::vector<Dim>* quotients) {
  const auto add = [&](const Dim& one) {
    const bool is_known = std::find(quotients->begin(), quotients->end(), one) != quotients->end();
    if (!is_known) quotients->push_back(one);
  };
  for (const Dim& dim : node.type.shape) each_quotient(dim, add);
  each_quotient(node.attributes.size, add);
  if (node.op != Opcode::fused) return;
  for (const Node& inner : node.body().nodes()) collect_quotients(inner, quotients);
}

std::string compute_type(DType dtype) {
  switch (dtype) {
    case DType::F16:
    case DType::BF16:
    case DType::F32:
      return "float";
    case DType::Bool:
      return "mask32";
    default:
      return std::string(cpp_name(dtype));
  }
}

std::string cpp_string(const std::string& text) {
  std::string all = "\"";
  char buffer[8];
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    std::snprintf(buffer, sizeof buffer, "\\%03o", code);
    const bool is_plain = code >= ' ' && code < 127 && c != '"' && c != '\\' && c != '?';
    all += is_plain ? std::string(1, c) : buffer;
  }
  return all + "\"";
}

std::string cpp_line(const std::vector<Location>& locations) {
  const std::string line =
      locations.empty() || locations[0].file.empty() ? "" : pto::text(locations[0]);
  return cpp_string(line.starts_with("<pto>") ? "" : line);
}

std::string cpp_constant(const std::variant<double, int64_t>& value, DType dtype) {
  const std::string type = compute_type(dtype);
  const bool is_int = std::holds_alternative<int64_t>(value);
  const double d = is_int ? static_cast<double>(std::get<int64_t>(value)) : std::get<double>(value);
  if (type == "mask32") return d != 0 ? "mask32(true)" : "mask32(false)";
  if (is_float(dtype)) {
    const bool single = type == "float";
    if (std::isnan(d)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
    const double rounded = single ? static_cast<double>(static_cast<float>(d)) : d;
    if (std::isinf(rounded))
      return std::string(rounded < 0 ? "-" : "") +
             (single ? "__builtin_inff()" : "__builtin_inf()");
    char buffer[48];
    std::snprintf(buffer, sizeof buffer, "%a", rounded);
    return std::string(buffer) + (single ? "f" : "");
  }
  const int64_t i = is_int ? std::get<int64_t>(value) : static_cast<int64_t>(d);
  return type + "(" + std::to_string(static_cast<uint64_t>(i)) + "ull)";
}

}  // namespace pto
