// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/print_region.hpp"

#include "pto/codegen/region_body.hpp"
#include "pto/codegen/region_plan.hpp"

namespace pto {
namespace {

Dim accessed(const RegionPlan& plan, const std::vector<AxisAccess>& accesses, DType dtype) {
  Dim count = pto::bytes(dtype);
  for (size_t a = 0; a < accesses.size(); ++a)
    if (accesses[a].step == AxisStep::Periodic)
      count = count * plan.period;
    else if (accesses[a].step == AxisStep::Repeated)
      count = count * floordiv(plan.axes[a].size, plan.period);
    else if (accesses[a].step != AxisStep::None)
      count = count * plan.axes[a].size;
  return count;
}

Dim traffic(const Graph& body, const RegionPlan& plan) {
  Dim total = 0;
  for (const Instance& i : plan.instances)
    if (i.input >= 0) total = total + accessed(plan, i.accesses, body[i.value].type.dtype);
  for (const RegionOutput& o : plan.outputs)
    total = total + accessed(plan, o.accesses, body[plan.at(o.instance).value].type.dtype);
  return total;
}

// Prints the exported function around the loops of a region.
class RegionFunction {
 public:
  RegionFunction(const Graph& body, const RegionRequest& request, CodeWriter* writer)
      : body_(body),
        request_(request),
        w_(*writer),
        plan_(plan_region(body, request.layouts)),
        loops_(body_, plan_, request_.scalars, request_.function) {}

  RegionText print() {
    const std::string first = loops_.print(true);
    const bool has_choice = !plan_.buffers.empty() && !plan_.needs_buffers;
    const std::string second = has_choice ? loops_.print(false) : "";
    w_.block(loops_.functions());
    w_.line("");
    w_.open(std::string(request_.is_inner ? "static" : "extern \"C\" PTO_EXPORT") + " int32_t " +
            request_.function + "(const pto_args* args) {");
    print_sizes();
    print_pointers();
    print_range();
    if (plan_.buffers.empty())
      w_.block(first);
    else
      print_buffered(first, second);
    w_.line("if (stream) stream_fence();");
    w_.line("return 0;");
    w_.close("}");
    return {plan_.items(), traffic(body_, plan_), symbols_};
  }

 private:
  static std::string tensor(int t) { return "p" + std::to_string(t); }

  void print_sizes() {
    for (const RegionAxis& axis : plan_.axes)  // sizes of parts too: their product may be 0
      for (const Dim& part : axis.parts) collect_symbols(part, &symbols_);
    for (const Instance& i : plan_.instances)
      if (i.count) collect_symbols(*i.count, &symbols_);
    for (const Instance& i : plan_.instances)
      if (i.chosen_dim) collect_symbols(chosen_size(body_, i), &symbols_);
    if (request_.is_inner) collect_symbols(traffic(body_, plan_), &symbols_);
    for (size_t k = 0; k < symbols_.size(); ++k) {
      const int place = request_.is_inner ? static_cast<int>(k) : symbols_[k];
      w_.line("[[maybe_unused]] const int64_t s" + std::to_string(symbols_[k]) +
              " = size_argument(args, " + std::to_string(request_.program_scalars + 2 + place) +
              ");");
    }
  }

  void print_pointers() {
    int t = 0;
    for (Value v : body_.inputs())
      if (body_[v].op == Opcode::input)
        print_pointer("const " + std::string(cpp_name(body_[v].type.dtype)), t++);
    first_output_ = t;
    for (Value v : body_.outputs()) print_pointer(std::string(cpp_name(body_[v].type.dtype)), t++);
    for (const auto& [t_, dim] : loops_.strides())
      w_.line("[[maybe_unused]] const int64_t " + tensor(t_) + "_" + std::to_string(dim) + " = " +
              stride(static_cast<size_t>(t_), dim) + ";");
  }

  std::string stride(size_t t, int dim) const {
    if (t < request_.strides.size())
      if (const std::string& known = request_.strides[t][static_cast<size_t>(dim)]; !known.empty())
        return known;
    return "args->tensors[" + std::to_string(t) + "].strides[" + std::to_string(dim) + "]";
  }

  void print_pointer(const std::string& type, int t) {
    w_.line("[[maybe_unused]] " + type + "* const " + tensor(t) + " = static_cast<" + type +
            "*>(args->tensors[" + std::to_string(t) + "].data);");
  }

  void print_range() {
    w_.line("const Range range(args, " + std::to_string(request_.program_scalars) + ");");
    w_.line("[[maybe_unused]] const int64_t n = " + cpp_size(plan_.vector_size()) + ";");
    if (!plan_.rows) {
      const int64_t piece = plan_.piece();
      w_.line("const int64_t pieces = max_size(1, (n + " + std::to_string(piece - 1) + ") / " +
              std::to_string(piece) + ");");
    }
    w_.line("[[maybe_unused]] const bool far = " + cpp_size(traffic(body_, plan_)) +
            " > kFarBytes;");
    const bool pitched = plan_.axes.size() > 1;
    std::string stream = "(args->flags & PTO_LAUNCH_STREAM) != 0";
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      if (plan_.stored_in_sweep(plan_.outputs[o]))
        stream += " && starts_lines(" + tensor(first_output_ + static_cast<int>(o)) + ", " +
                  (pitched ? "n" : "0") + ")";
    w_.line("const bool stream = " + stream + ";");
  }

  // A row that fits the scratch memory keeps its buffered values there; a longer one computes
  // again, unless that is too often.
  void print_buffered(const std::string& with, const std::string& without) {
    w_.line("const int64_t row = " + cpp_checked_size(plan_.row_size()) + ";");
    std::string bytes;
    for (const DType dtype : plan_.rows_of_scratch)
      bytes += (bytes.empty() ? "sizeof(" : " + sizeof(") + compute_type(dtype) + ")";
    w_.line("char* const buffer = row_buffer(args, row, " + bytes +
            (without.empty() ? ", true);" : ");"));
    w_.open("if (buffer) {");
    std::string before = "buffer";
    for (size_t b = 0; b < plan_.rows_of_scratch.size(); ++b) {
      const std::string type = compute_type(plan_.rows_of_scratch[b]);
      const std::string name = "b" + std::to_string(b);
      w_.line(type + "* const " + name + " = reinterpret_cast<" + type + "*>(" + before + ");");
      before = name + " + padded_row(row)";
    }
    w_.block(with);
    w_.close("} else {");
    if (without.empty())
      w_.line("return args->services->fail(args->services, \"no memory for a row's values\");");
    w_.block(without);
    w_.line("}");
  }

  const Graph& body_;
  const RegionRequest& request_;
  CodeWriter& w_;
  RegionPlan plan_;
  RegionBody loops_;
  int first_output_ = 0;
  std::vector<int> symbols_;
};

}  // namespace

RegionText print_region(const Graph& body, const RegionRequest& request, CodeWriter* writer) {
  return RegionFunction(body, request, writer).print();
}

}  // namespace pto
