// SPDX-License-Identifier: Apache-2.0
// Compiled code equals the interpreter on random graphs: exactly where every operation is exact,
// else within the interpreter's bounds. A failure prints the seed and a shrunk graph to paste.
// The deep run compiles every random graph that the tests of the other stages make.
#include "pto/ir/random_graph.hpp"
#include "pto/ir/rebuild.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "pto/base/machine.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/settings.hpp"
#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/launch/call.hpp"
#include "tests/deep.hpp"

namespace pto::random_graph_test {

constexpr size_t kFence = 64;            // bytes around a buffer that nobody may write
constexpr unsigned char kPoison = 0xff;  // NaN as a float: a wrong read shows

// A tensor in memory: dense, with longer rows, or every second element and a reversed first axis.
class Placed {
 public:
  Placed(const Array& array, StrideClass layout) : dtype_(array.dtype), shape_(array.shape) {
    const int64_t gap = layout == StrideClass::Any ? 2 : 1;
    int64_t step = gap, start = 0;
    strides_.resize(shape_.size());
    for (size_t axis = shape_.size(); axis-- > 0;) {
      strides_[axis] = step;
      step *= std::max<int64_t>(shape_[axis], 1);
      if (layout != StrideClass::Contiguous) step += 3;
    }
    if (layout == StrideClass::Any && !shape_.empty() && shape_[0] > 0) {
      start = strides_[0] * (shape_[0] - 1);
      strides_[0] = -strides_[0];
    }
    memory_.assign(static_cast<size_t>(step + 1) * size() + 2 * kFence, kPoison);
    first_ = memory_.data() + kFence + static_cast<size_t>(start) * size();
    const auto where = places(shape_, strides_, start);
    for (size_t i = 0; i < array.size(); ++i) {
      const uint64_t bits = element_bits(dtype_, array.at(i));
      std::memcpy(memory_.data() + kFence + where[i] * size(), &bits, size());
    }
  }

  pto_tensor_ref argument() {
    return {first_, shape_.data(), strides_.data(), static_cast<int32_t>(shape_.size()),
            static_cast<int32_t>(dtype_)};
  }

 private:
  size_t size() const { return static_cast<size_t>(bytes(dtype_)); }
  DType dtype_;
  std::vector<int64_t> shape_, strides_;
  std::vector<unsigned char> memory_;
  unsigned char* first_ = nullptr;
};

// A dense output between fences.
class Output {
 public:
  Output(DType dtype, std::span<const int64_t> sizes)
      : array_(dtype, {sizes.begin(), sizes.end()}) {
    const size_t bytes = array_.size() * static_cast<size_t>(pto::bytes(dtype));
    memory_.assign(bytes + 2 * kFence, kPoison);
  }
  void* data() { return memory_.data() + kFence; }

  bool has_bits_of(const Output& other) const { return memory_ == other.memory_; }

  bool fences_stand() const {
    const auto intact = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(memory_.begin(), memory_.begin() + kFence, intact) &&
           std::all_of(memory_.end() - kFence, memory_.end(), intact);
  }

  const Array& read() {
    const auto size = static_cast<size_t>(bytes(array_.dtype));
    for (size_t i = 0; i < array_.size(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, memory_.data() + kFence + i * size, size);
      array_.set(i, element_from_bits(array_.dtype, bits));
    }
    return array_;
  }

 private:
  Array array_;
  std::vector<unsigned char> memory_;
};

uint64_t scalar_bits(DType dtype, ElementNumber value) {
  return is_float(dtype) ? std::bit_cast<uint64_t>(value.real)
                         : static_cast<uint64_t>(value.integer);
}

std::vector<Output> run(const Program& program, const Graph& graph,
                        const std::vector<Array>& inputs, const std::vector<StrideClass>& layouts) {
  std::vector<Placed> placed;
  std::vector<uint64_t> scalars;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph[graph.inputs()[i]].op == Opcode::scalar)
      scalars.push_back(scalar_bits(inputs[i].dtype, inputs[i].at(0)));
    else
      placed.emplace_back(inputs[i], layouts[placed.size()]);
  }
  std::vector<pto_tensor_ref> arguments;
  for (Placed& tensor : placed) arguments.push_back(tensor.argument());
  Call call(program, arguments, scalars);
  std::vector<Output> outputs;
  std::vector<void*> pointers;
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    outputs.emplace_back(program.spec().outputs[i].dtype, call.output_sizes(static_cast<int>(i)));
  for (Output& output : outputs) pointers.push_back(output.data());
  call.run(pointers);
  return outputs;
}

// Runs on these inputs and compares; returns the difference, or nothing.
std::string compare(const Program& program, const Graph& graph, const std::vector<Array>& inputs,
                    const std::vector<StrideClass>& layouts) {
  std::vector<Output> outputs = run(program, graph, inputs, layouts);
  const auto wanted = interpret_with_bounds(graph, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].fences_stand()) return "output " + std::to_string(i) + " overruns its memory";
    const std::string wrong = difference(wanted[i], outputs[i].read());
    if (!wrong.empty()) return "output " + std::to_string(i) + ", " + wrong;
  }
  return "";
}

struct Kind {
  const char* name;
  RandomGraphOptions graph;
  RandomInputOptions inputs;
  uint64_t tests;  // in a quick run
};

std::vector<StrideClass> layouts_of(const Graph& graph, uint64_t seed) {
  std::vector<StrideClass> layouts;
  for (const Value v : graph.inputs())
    if (graph[v].op == Opcode::input)
      layouts.push_back(seed % 2 == 0 ? StrideClass::Contiguous
                                      : static_cast<StrideClass>((seed / 2 + layouts.size()) % 3));
  return layouts;
}

// Picks a target that the machine can run, each in its turn.
std::string target_of_seed(uint64_t seed) {
  const auto targets = static_cast<uint64_t>(machine().best_target) + 1;
  return std::string(name(static_cast<Target>(seed % targets)));
}

// Compiles one program and runs it with three choices of sizes and values.
std::string check(const Kind& kind, const Graph& graph, uint64_t seed) {
  CompileOptions options;
  options.strides = layouts_of(graph, seed);
  options.target = target_of_seed(seed);
  try {
    const auto program = compile(graph, options);
    for (const uint64_t other : {seed, seed + 1000003, seed + 2000003}) {
      const auto inputs = random_inputs(graph, other, kind.inputs);
      const std::string wrong = compare(*program, graph, inputs, options.strides);
      if (!wrong.empty()) return "sizes of seed " + std::to_string(other) + ": " + wrong;
    }
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.find("' cannot run inside a fused kernel") == text.npos ? text : "";
  }
  return "";
}

// A value of f16 or bf16 is rounded where a kernel ends, and inside of one it is not.
bool has_narrow_floats(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.type.dtype == DType::F16 || node.type.dtype == DType::BF16;
  });
}

// Compiles one program with kernels cut and ordered in some ways; its bits stay.
std::string check_cuts(const Kind& kind, const Graph& graph, uint64_t seed) {
  if (has_narrow_floats(graph)) return "";
  CompileOptions options;
  options.strides = layouts_of(graph, seed);
  options.target = target_of_seed(seed);
  const Hint merge{"merge", {1 + static_cast<int64_t>(seed % 3)}, ""};
  const Hint order{"order", {}, seed % 2 == 0 ? "depth" : "longest"};
  const Hint workers{"workers", {1 + static_cast<int64_t>(seed % 4)}, ""};
  try {
    const auto inputs = random_inputs(graph, seed, kind.inputs);
    const auto whole = run(*compile(graph, options), graph, inputs, options.strides);
    const Graph cut = with_hints(graph, {merge, order, workers});
    const auto parts = run(*compile(cut, options), graph, inputs, options.strides);
    for (size_t i = 0; i < whole.size(); ++i)
      if (!whole[i].has_bits_of(parts[i])) return "output " + std::to_string(i) + " differs";
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.find("' cannot run inside a fused kernel") == text.npos ? text : "";
  }
  return "";
}

class RandomGraph : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    set_include_directory(
        std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path());
  }
};

using Check = std::string (*)(const Kind&, const Graph&, uint64_t);

void check_random_graphs(const Kind& kind, uint64_t quick, Check check) {
  const uint64_t tests = is_deep() ? random_tests() : quick;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (uint64_t seed = next++; seed < tests; seed = next++) {
      const Graph graph = random_graph(seed, kind.graph);
      if (check(kind, graph, seed).empty()) continue;
      const Graph small =
          shrink(graph, [&](const Graph& g) { return !check(kind, g, seed).empty(); });
      const std::lock_guard lock(mutex);
      failures.push_back("seed " + std::to_string(seed) + ": " + check(kind, small, seed) + "\n" +
                         print(small));
      if (failures.size() >= 5) next = tests;
    }
  };
  std::thread second(work);
  work();
  second.join();
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

TEST_P(RandomGraph, compiled_equals_the_interpreter) {
  check_random_graphs(GetParam(), GetParam().tests, check);
}

TEST_P(RandomGraph, kernels_that_hints_cut_and_order_have_the_same_bits) {
  check_random_graphs(GetParam(), GetParam().tests / 4, check_cuts);
}

// The size of the merged axis, 0, names no symbol.
TEST(CompiledGraph, may_merge_an_axis_without_elements_with_others) {
  set_include_directory(
      std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path());
  const Graph graph =
      parse(R"(graph empty(%x: f32[s0, 0, 5], %y: f32[s0, 0, 5]) -> (f32[s0, 0, 5]) {
    %0 = amax(%x) {axes=[0, 1]} : f32[1, 1, 5]
    %1 = broadcast(%0) : f32[s0, 0, 5]
    %2 = add(%1, %y) : f32[s0, 0, 5]
    return %2
  })");
  for (uint64_t seed = 0; seed < 18; ++seed) EXPECT_EQ(check({}, graph, seed), "") << seed;
}

INSTANTIATE_TEST_SUITE_P(
    Compile, RandomGraph,
    testing::Values(Kind{"exactly", {.operations = 8, .exact_only = true}, {.specials = false}, 25},
                    Kind{"within_bounds", {}, {.specials = true}, 80},
                    Kind{"with_structure", {.structure = true}, {.specials = true}, 40}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace pto::random_graph_test
