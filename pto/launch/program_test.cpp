// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "pto/base/machine.hpp"

namespace pto::program_test {

using testing::HasSubstr;

const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2);

// Records the arguments of the kernels below; one launch at a time.
struct Seen {
  std::mutex mutex;
  int blocks = 0, tensors = 0;
  uint32_t flags = 0;
  std::vector<uint64_t> scalars;
  std::multiset<int> block_indices;
  std::vector<std::vector<int64_t>> sizes, strides;
  std::vector<int64_t> extents;
} seen;

int32_t record(const pto_args* args) {
  const std::lock_guard lock(seen.mutex);
  seen.blocks = args->blocks;
  seen.tensors = args->n_tensors;
  seen.flags = args->flags;
  seen.block_indices.insert(args->block);
  seen.scalars.assign(args->scalars, args->scalars + args->n_scalars);
  seen.sizes.clear();
  seen.strides.clear();
  seen.extents.clear();
  for (int t = 0; t < args->n_tensors; ++t) {
    const pto_tensor& tensor = args->tensors[t];
    seen.sizes.emplace_back(tensor.sizes, tensor.sizes + tensor.rank);
    seen.strides.emplace_back(tensor.strides, tensor.strides + tensor.rank);
    seen.extents.push_back(tensor.extent_bytes);
  }
  return 0;
}

// Computes y[i] = 2 * x[i] by the kernel contract's item ranges.
int32_t twice(const pto_args* args) {
  const auto items = static_cast<int64_t>(args->scalars[0]);
  const auto quantum = static_cast<int64_t>(args->scalars[1]);
  const int64_t units = (items + quantum - 1) / quantum;
  const int64_t begin = units * args->block / args->blocks * quantum;
  const int64_t end = std::min(items, units * (args->block + 1) / args->blocks * quantum);
  const auto* x = static_cast<const float*>(args->tensors[0].data);
  auto* y = static_cast<float*>(args->tensors[1].data);
  for (int64_t i = begin; i < end; ++i) y[i] += 2 * x[i];
  return 0;
}

int32_t refuse(const pto_args* args) {
  return args->services->fail(args->services, "too odd for me");
}

ProgramSpec one_launch(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs, Dim items,
                       Dim bytes) {
  ProgramSpec spec;
  spec.name = "f";
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  LaunchSpec launch;
  launch.function = "f_0";
  for (size_t t = 0; t < spec.inputs.size() + spec.outputs.size(); ++t) {
    launch.tensors.push_back(static_cast<int>(t));
  }
  launch.items = items;
  launch.bytes = bytes;
  spec.launches.push_back(launch);
  return spec;
}

TensorSpec f32(std::string name, Dims shape) { return {std::move(name), DType::F32, shape, {}}; }

// A dense argument; keeps its sizes.
struct Argument {
  std::vector<int64_t> sizes, strides;
  void* data = nullptr;

  explicit Argument(std::vector<int64_t> shape, void* at = nullptr)
      : sizes(std::move(shape)), strides(sizes.size()), data(at) {
    int64_t stride = 1;
    for (size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) strides[axis] = stride;
  }
  operator pto_tensor_ref() const {
    return {data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()),
            static_cast<int32_t>(DType::F32)};
  }
};

std::string error_of(const Program& program, const std::vector<pto_tensor_ref>& arguments) {
  try {
    Call call(program, arguments, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Program, binds_each_symbol_from_the_first_axis_that_names_it) {
  const Program program(
      one_launch({f32("x", {s1, s0}), f32("y", {s0, s2})}, {f32("z", {s0, s1 * s2})}, s0, s0),
      {record}, nullptr);
  const Argument x({3, 5}), y({5, 7});
  const pto_tensor_ref arguments[] = {x, y};
  Call call(program, arguments, {});
  EXPECT_THAT(call.output_sizes(0), testing::ElementsAre(5, 21));
  EXPECT_EQ(call.output_bytes(0), 5 * 21 * 4);
  std::vector<float> z(5 * 21);
  void* outputs[] = {z.data()};
  call.run(outputs);
  EXPECT_THAT(seen.scalars, testing::ElementsAre(5, 1, 5, 3, 7));  // items, quantum, s0, s1, s2
  EXPECT_THAT(seen.sizes[2], testing::ElementsAre(5, 21));
  EXPECT_THAT(seen.strides[2], testing::ElementsAre(21, 1));
  EXPECT_THAT(seen.extents, testing::ElementsAre(60, 140, 420));
}

TEST(Program, names_both_sizes_and_both_axes_where_a_size_contradicts_another) {
  const Program program(one_launch({f32("x", {s0, 4}), f32("y", {s0 * 2})}, {}, s0, s0), {record},
                        nullptr);
  EXPECT_EQ(error_of(program, {Argument({3, 4}), Argument({6})}), "");
  EXPECT_THAT(error_of(program, {Argument({3, 4}), Argument({7})}),
              testing::AllOf(HasSubstr("f: axis 0 of y has size 7, but 6 is required"),
                             HasSubstr("s0 = 3 is axis 0 of x")));
  EXPECT_THAT(error_of(program, {Argument({3, 5}), Argument({6})}),
              testing::AllOf(HasSubstr("axis 1 of x has size 5, but 4 is required"),
                             HasSubstr("compiled for this size")));
}

TEST(Program, a_guard_names_the_operation_both_sizes_and_the_line) {
  ProgramSpec spec = one_launch({f32("x", {s0}), f32("y", {s1})}, {}, s0, s0);
  spec.guards.push_back({{s0, s1, "add"}, "model.py:7"});
  const Program program(spec, {record}, nullptr);
  EXPECT_EQ(error_of(program, {Argument({3}), Argument({3})}), "");
  EXPECT_THAT(error_of(program, {Argument({3}), Argument({4})}),
              testing::AllOf(
                  testing::StartsWith("model.py:7: f: sizes 3 and 4 differ in add"),
                  HasSubstr("they must be equal; s0 = 3 is axis 0 of x; s1 = 4 is axis 0 of y")));
}

TEST(Program, sizes_that_do_not_broadcast_name_the_function) {
  const Program program(
      one_launch({f32("x", {s0}), f32("y", {s1})}, {f32("z", {broadcast(s0, s1)})}, s0, s0),
      {record}, nullptr);
  EXPECT_EQ(error_of(program, {Argument({3}), Argument({1})}), "");
  EXPECT_THAT(error_of(program, {Argument({3}), Argument({4})}),
              testing::StartsWith("f: sizes 3 and 4 differ in broadcasting"));
}

TEST(Program, a_guard_of_a_size_that_is_not_0_names_its_axis) {
  ProgramSpec spec = one_launch({f32("x", {s0, s1})}, {}, s0, s0);
  spec.guards.push_back({SizeGuard::nonempty(s1, "amax"), "model.py:7"});
  const Program program(spec, {record}, nullptr);
  EXPECT_EQ(error_of(program, {Argument({0, 3})}), "");
  EXPECT_THAT(error_of(program, {Argument({3, 0})}),
              testing::AllOf(testing::StartsWith("model.py:7: f: amax over an axis of size 0: "
                                                 "s1 = 0 is axis 1 of x"),
                             HasSubstr("no largest or smallest"), HasSubstr("skip an empty one")));
}

TEST(Program, refuses_what_exceeds_64_bits_or_is_negative) {
  const int64_t big = int64_t{1} << 40;
  const Program product(one_launch({f32("x", {s0})}, {f32("y", {s0 * s0})}, s0, s0), {record},
                        nullptr);
  EXPECT_THAT(error_of(product, {Argument({big})}), HasSubstr("leaves 64 bits"));
  const Program bytes(one_launch({f32("x", {s0})}, {f32("y", {s0, s0})}, s0, s0), {record},
                      nullptr);
  EXPECT_THAT(error_of(bytes, {Argument({big})}), HasSubstr("more than 2^63 bytes"));
  ProgramSpec spec = one_launch({f32("x", {s0})}, {f32("y", {s0})}, s0, s0);
  spec.temporaries.assign(4, f32("t", {s0, s0}));  // 2^62 bytes each: all together wrap to 0
  const Program temporaries(spec, {record}, nullptr);
  EXPECT_THAT(error_of(temporaries, {Argument({big >> 10})}), HasSubstr("more than 2^63 bytes"));
  const Program negative(one_launch({f32("x", {s0})}, {f32("y", {s0 - 4})}, s0, s0), {record},
                         nullptr);
  EXPECT_THAT(error_of(negative, {Argument({3})}), HasSubstr("would be -1"));
  const Program divided(one_launch({f32("x", {s0})}, {f32("y", {floordiv(8, s0)})}, s0, s0),
                        {record}, nullptr);
  EXPECT_THAT(error_of(divided, {Argument({0})}), HasSubstr("divides by zero"));
}

TEST(Program, refuses_specifications_beyond_its_limits) {
  const auto error = [](ProgramSpec spec) -> std::string {
    try {
      const Program program(std::move(spec), {record}, nullptr);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error(one_launch({f32("x", {s0})}, {f32("y", {s1})}, s0, s0)),
              HasSubstr("size s1 of y is the size of no input"));
  EXPECT_THAT(error(one_launch({f32("x", Dims(9, 1))}, {}, 1, 1)), HasSubstr("9 dimensions"));
  EXPECT_THAT(
      error(one_launch(std::vector<TensorSpec>(PTO_MAX_BUFFERS + 1, f32("x", {1})), {}, 1, 1)),
      HasSubstr("65 tensors"));
  EXPECT_THAT(error(one_launch({f32("x", {Dim::symbol(64)})}, {}, 1, 1)),
              HasSubstr("more than 64 different sizes"));
  ProgramSpec scalars = one_launch({f32("x", {1})}, {}, 1, 1);
  scalars.scalars.resize(33);
  EXPECT_THAT(error(scalars), HasSubstr("33 scalar arguments"));
}

TEST(Program, launches_nothing_for_no_items) {
  const Program program(one_launch({f32("x", {s0})}, {f32("y", {s0})}, s0, s0 * 8), {refuse},
                        nullptr);
  const Argument x({0});
  const pto_tensor_ref arguments[] = {x};
  void* outputs[] = {nullptr};
  Call(program, arguments, {}).run(outputs);
}

TEST(Program, throws_the_kernels_text) {
  const Program program(one_launch({f32("x", {s0})}, {f32("y", {s0})}, s0, s0 * 8), {refuse},
                        nullptr);
  float data[2] = {};
  const Argument x({2}, data);
  const pto_tensor_ref arguments[] = {x};
  void* outputs[] = {data};
  try {
    Call(program, arguments, {}).run(outputs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("f: the kernel failed: too odd for me"));
    EXPECT_EQ(error.kind(), ErrorKind::Runtime);
  }
}

TEST(Program, computes_every_item_once_whatever_the_number_of_blocks) {
  ProgramSpec spec = one_launch({f32("x", {s0})}, {f32("y", {s0})}, s0, s0 * 8);
  spec.launches[0].quantum = 16;
  const Program program(spec, {twice}, nullptr);
  for (const int64_t n : {1, 15, 16, 17, 1000, 300000}) {
    std::vector<float> x(static_cast<size_t>(n), 1.5f), y(x.size());
    const Argument argument({n}, x.data());
    const pto_tensor_ref arguments[] = {argument};
    void* outputs[] = {y.data()};
    Call(program, arguments, {}).run(outputs);
    EXPECT_THAT(y, testing::Each(3.0f)) << n;
  }
}

TEST(Program, passes_temporaries_to_the_launches_that_name_them) {
  ProgramSpec spec = one_launch({f32("x", {s0, s1})}, {f32("y", {s0, s1})}, s0, s0);
  spec.temporaries = {f32("sum", {s0, 1}), f32("max", {s0, 1})};
  spec.launches[0].tensors = {0, 3, 1};
  const Program program(spec, {record}, nullptr);
  float data[6] = {};
  const Argument x({2, 3}, data);
  const pto_tensor_ref arguments[] = {x};
  void* outputs[] = {data};
  Call(program, arguments, {}).run(outputs);
  EXPECT_THAT(seen.sizes,
              testing::ElementsAre(testing::ElementsAre(2, 3), testing::ElementsAre(2, 1),
                                   testing::ElementsAre(2, 3)));
  EXPECT_THAT(seen.extents, testing::ElementsAre(24, 64, 24));
}

TEST(Program, streams_outputs_that_no_cache_holds) {
  const Program program(one_launch({f32("x", {1})}, {f32("y", {Dim(int64_t{1} << 40)})}, 1, 1),
                        {record}, nullptr);
  const Argument x({1});
  const pto_tensor_ref arguments[] = {x};
  void* outputs[] = {nullptr};
  Call(program, arguments, {}).run(outputs);
  EXPECT_EQ(seen.flags, static_cast<uint32_t>(PTO_LAUNCH_STREAM));
  const Program small(one_launch({f32("x", {1})}, {f32("y", {1})}, 1, 1), {record}, nullptr);
  Call(small, arguments, {}).run(outputs);
  EXPECT_EQ(seen.flags, 0u);
}

TEST(Program, streams_from_the_cut_off_on) {
  const int64_t floats = machine().stream_bytes / 4;
  const Argument x({1});
  const pto_tensor_ref arguments[] = {x};
  void* outputs[] = {nullptr};
  const Program at(one_launch({f32("x", {1})}, {f32("y", {Dim(floats)})}, 1, 1), {record}, nullptr);
  Call(at, arguments, {}).run(outputs);
  EXPECT_EQ(seen.flags, static_cast<uint32_t>(PTO_LAUNCH_STREAM));
  const Program below(one_launch({f32("x", {1})}, {f32("y", {Dim(floats - 1)})}, 1, 1), {record},
                      nullptr);
  Call(below, arguments, {}).run(outputs);
  EXPECT_EQ(seen.flags, 0u);
}

TEST(Program, splits_into_blocks_by_traffic_threads_and_items) {
  constexpr int64_t kGrain = 64 << 10;
  EXPECT_EQ(block_count(1000, kGrain, 1, 4, kGrain), 1);          // handing over costs more
  EXPECT_EQ(block_count(1000, 4 * kGrain, 1, 1, kGrain), 1);      // one thread
  EXPECT_EQ(block_count(1000, 2 * kGrain, 1, 8, kGrain), 4);      // 32 KB each
  EXPECT_EQ(block_count(1000, 4 * kGrain, 1, 4, kGrain), 4);      // one per thread
  EXPECT_EQ(block_count(1000, 24 * kGrain, 1, 4, kGrain), 6);     // 256 KB each
  EXPECT_EQ(block_count(1000, 1000 * kGrain, 1, 4, kGrain), 16);  // 4 per thread
  EXPECT_EQ(block_count(3, 1000 * kGrain, 1, 4, kGrain), 3);      // one per item
  EXPECT_EQ(block_count(33, 1000 * kGrain, 16, 4, kGrain), 3);    // one per quantum
}

TEST(SizeProgram, equals_the_expression) {
  const Dim dims[] = {s0 + s1,
                      s0 - 2 * s1,
                      s0 * s1,
                      floordiv(s0 - 9, s1),
                      mod(s0 - 9, s1),
                      min(s0, s1),
                      max(s0, s1),
                      floordiv(s0 * s1 + 3, s0) - min(s1, 2),
                      7,
                      s1};
  for (const Dim& dim : dims) {
    for (int64_t a = 1; a < 12; ++a) {
      for (int64_t b = 1; b < 12; ++b) {
        const int64_t symbols[] = {a, b};
        EXPECT_EQ(SizeProgram(dim).evaluate(symbols), evaluate(dim, {a, b})) << text(dim);
      }
    }
  }
}

}  // namespace pto::program_test
