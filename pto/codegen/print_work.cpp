// SPDX-License-Identifier: Apache-2.0
// Work of a program: kernels and products.
#include <algorithm>
#include <set>

#include "pto/abi/precision.h"
#include "pto/base/text.hpp"
#include "pto/codegen/graph_printer.hpp"
#include "pto/codegen/outlined.hpp"
#include "pto/codegen/print_region.hpp"
#include "pto/codegen/region_plan.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

std::string joined_all(const std::vector<std::string>& parts) {
  return joined(parts, ", ", [](const std::string& part) { return part; });
}

// A region whose inputs are scalars where the caller has numbers.
Graph with_numbers(const Graph& body, const std::vector<bool>& is_number) {
  return rebuild(body, body.outputs(), [&](GraphBuilder& b, const Node& node, Value v) {
    if (!node.is_parameter() || !is_number[static_cast<size_t>(v)]) return copy_node(b, node, v);
    const Value scalar = b.scalar(node.attributes.name, node.type.dtype);
    return std::optional(b.reshape(scalar, node.type.shape));
  });
}

// The bits of a scalar: floats travel as doubles.
std::string scalar_bits(const std::string& number, DType dtype) {
  return is_float(dtype) ? "bit_cast<uint64_t>(double(" + number + "))"
                         : "uint64_t(int64_t(" + number + "))";
}

}  // namespace

std::string GraphPrinter::tensor_argument(const MemRef& place) {
  const std::string name = text_.variable("t");
  std::vector<std::string> sizes;
  for (const Dim& dim : place.type.shape) sizes.push_back(cpp_size(dim));
  const size_t rank = sizes.size();
  if (rank > 0) {
    w_.line("const int64_t " + name + "_n[] = {" + joined_all(sizes) + "};");
    w_.line("const int64_t " + name + "_s[] = {" + joined_all(place.strides) + "};");
  }
  const DLPackType type = dlpack_type(place.type.dtype);
  return "tensor(" + place.data + ", " +
         (rank > 0 ? name + "_n, " + name + "_s, " : "nullptr, nullptr, ") + std::to_string(rank) +
         ", " + std::to_string(type.code) + ", " + std::to_string(type.bits) + ")";
}

namespace {

// Says why products do not read the packed copy of a constant on their right; "": they may.
std::string why_unpacked(const MemRef& right, const Type& constant) {
  const DType dtype = constant.dtype;
  const size_t rank = right.axes.size();
  if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16 && dtype != DType::I8)
    return "its elements are " + std::string(name(dtype)) +
           ", and f32, f16, bf16 and i8 are packed";
  const int down = right.axes[rank - 2], across = right.axes[rank - 1];
  if (down < 0 || across < 0)
    return "a product reads its elements in another shape, not as matrices of two of its axes";
  if (!(right.type.shape[rank - 2] == constant.shape[static_cast<size_t>(down)]))
    return "a product reads a part of its rows, and whole columns are packed";
  return "";
}

}  // namespace

std::string GraphPrinter::packed_right(const MemRef& right, int precision) {
  if (right.constant < 0) return "nullptr";
  const auto& [name, type] = text_.constants.at(right.constant);
  Outline::Constant& constant = text_.outline.constants[right.constant];
  const std::string why = why_unpacked(right, type);
  if (!constant.is_packed) constant = {name, why.empty(), why};
  if (!why.empty()) return "nullptr";
  const size_t rank = right.axes.size();
  const PackedSpec spec{right.constant, right.axes[rank - 2], right.axes[rank - 1], precision};
  auto& all = text_.packed;
  const auto place = std::find(all.begin(), all.end(), spec) - all.begin();
  if (place == static_cast<int64_t>(all.size())) all.push_back(spec);
  return "packed_at(packed, " + std::to_string(place) + ")";
}

void GraphPrinter::print_matmul(Value v) {
  const Node& node = graph_[v];
  const MemRef to = home_of({v, 0}, node.type), left = place(node.operands[0]),
               right = place(node.operands[1]);
  w_.open("{");
  std::vector<std::string> arguments;
  for (const MemRef& one : {to, left, right}) arguments.push_back(tensor_argument(one));
  w_.line("const pto_tensor c = " + arguments[0] + ", a = " + arguments[1] +
          ", b = " + arguments[2] + ";");
  const std::string soon = soon_of(v);
  if (!soon.empty()) w_.line("const pto_runs soon = " + soon + ";");
  const int precision = pto_matmul_precision_of(node.attributes.name.c_str());
  const bool is_packed = left.type.dtype == right.type.dtype;
  must("pto_multiply(frame.args->services, " + where(node) + ", &c, &a, &b, " +
       std::to_string(precision) + ", " + (is_packed ? packed_right(right, precision) : "nullptr") +
       ", " + (right.pages.empty() ? "nullptr" : "&" + right.pages) + ", " +
       (soon.empty() ? "nullptr" : "&soon") +
       ", frame.is_root ? frame.args->services->threads : 1)");
  w_.close("}");
  places_[v] = to;
}

namespace {

// Returns the name of the function that does what a kernel's text says: an earlier one whose sizes
// and values have other numbers, or that kernel, which is then printed.
std::string function_of(const std::string& kernel, const std::string& name, ProgramText* text) {
  std::string nameless = outlined(kernel, [](const auto&) { return ""; }).text;
  for (size_t at; (at = nameless.find(name)) != nameless.npos;) nameless.erase(at, name.size());
  const auto [known, is_new] = text->kernels.try_emplace(std::move(nameless), name);
  if (is_new) text->functions.block(kernel);
  return known->second;
}

}  // namespace

void GraphPrinter::print_fused(Value v) {
  const Node& node = graph_[v];
  RegionRequest request;
  request.function = text_.name + "_" + std::to_string(text_.kernels.size());
  request.is_inner = true;
  std::vector<MemRef> tensors;
  std::vector<std::string> scalars;
  std::vector<bool> is_number;
  for (const Value operand : node.operands) {
    const auto known = numbers_.find(operand);
    is_number.push_back(known != numbers_.end());
    if (known != numbers_.end()) {
      request.scalars.push_back(static_cast<int>(scalars.size()));
      scalars.push_back(scalar_bits(known->second, graph_[operand].type.dtype));
    } else {
      tensors.push_back(place(operand));
      request.layouts.push_back({tensors.back().layout, tensors.back().gaps});
    }
  }
  request.program_scalars = static_cast<int>(scalars.size());
  const Graph body = with_numbers(node.body(), is_number);
  std::vector<std::pair<MemRef, MemRef>> asides;  // outputs that a kernel cannot store as they lie
  bool is_dense = true;
  const size_t inputs = request.layouts.size();
  for (size_t k = 0; k < body.outputs().size(); ++k) {
    const Made made{v, static_cast<int>(k)};
    MemRef home = home_of(made, body[body.outputs()[k]].type);
    made_[made] = home;
    request.layouts.push_back({home.layout, home.gaps});
    is_dense = is_dense && home.layout == StrideClass::Contiguous;
    tensors.push_back(home);
  }
  const RegionPlan plan = plan_region(body, request.layouts);
  Outline::Step& step = text_.outline.steps[static_cast<size_t>(text_.outline.step())];
  step.limits = limits_of(node.body());
  for (const RegionAxis& axis : plan.axes) step.axes.push_back({axis.size, axis.inner});
  for (size_t k = 0; k < body.outputs().size(); ++k) {
    if (can_store(plan, k, tensors[inputs + k].strides)) continue;
    MemRef& home = tensors[inputs + k];
    asides.emplace_back(home, fresh(home.type));
    home = asides.back().second;
    request.layouts[inputs + k] = home.layout;
  }
  for (const MemRef& tensor : tensors) request.strides.push_back(known_strides(tensor));
  CodeWriter kernel;
  const RegionText region = print_region(body, request, &kernel);
  step.function = function_of(kernel.text(), request.function, &text_);
  w_.open("{");
  std::vector<std::string> arguments, sizes{"0", "0"};
  for (const MemRef& one : tensors) arguments.push_back(tensor_argument(one));
  for (const int symbol : region.symbols)
    sizes.push_back("uint64_t(s" + std::to_string(symbol) + ")");
  scalars.insert(scalars.end(), sizes.begin(), sizes.end());
  w_.line("const pto_tensor tensors[] = {" + joined_all(arguments) + "};");
  w_.line("uint64_t scalars[] = {" + joined_all(scalars) + "};");
  const std::string written = is_dense && is_root_ ? cpp_size(region.bytes) : "0";
  const bool is_plain = plan.buffers.empty() && asides.empty() && !text_.is_recorded;
  must((is_plain ? "run<kPlain>(frame, " : "run<kBuffered>(frame, ") + step.function +
       ", tensors, " + std::to_string(tensors.size()) + ", scalars, " +
       std::to_string(scalars.size()) + ", " + std::to_string(request.program_scalars) + ", " +
       cpp_size(region.items) + ", " + cpp_size(region.bytes) + ", " + written +
       step.limits.text() + ")");
  w_.close("}");
  for (const auto& [to, from] : asides) copy(to, from);
}

}  // namespace pto
