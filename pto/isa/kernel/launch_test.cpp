// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/kernel/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/isa_error.hpp"

namespace {

using testing::HasSubstr;

// Computes out[i] = x[i] * factor + first, for this block's share of `length`.
void scale(float* out, const float* x, uint32_t length, double factor, int8_t first) {
  const auto blocks = static_cast<uint32_t>(pto_block_count());
  const uint32_t share = (length + blocks - 1) / blocks;
  const uint32_t start = static_cast<uint32_t>(pto_block_index()) * share;
  for (uint32_t i = start; i < start + share && i < length; ++i) {
    out[i] = x[i] * static_cast<float>(factor) + first;
  }
}

void report_extent(int64_t* out, const float* x) noexcept { out[0] = pto_extent(x); }
void always_throws(void*) { throw std::runtime_error("thrown by the kernel"); }
void takes_half(float* out, pto::isa::half value, bool flag) {
  out[0] = flag ? float(value) : -1.0f;
}

PTO_KERNEL(scale_entry, scale)

// Computes out[block] = x[block] * factor + first, in the public form.
void kernel_entry(int64_t* slots) {
  const int32_t i = pto_block_index();
  double factor;
  __builtin_memcpy(&factor, &slots[2], sizeof(factor));
  reinterpret_cast<float*>(slots[0])[i] =
      reinterpret_cast<const float*>(slots[1])[i] * float(factor) + float(slots[3]);
}
namespace inner {
void kernel_entry(int64_t* slots) noexcept { *reinterpret_cast<int64_t*>(slots[0]) = slots[1]; }
}  // namespace inner
void not_kernel_entry(int64_t* out) { *out = 7; }

PTO_KERNEL(scale_slots, kernel_entry)

// Has the members of at::Tensor that a launch looks at.
struct Numbers {
  const int64_t* numbers;
  size_t count;
  const int64_t* data() const { return numbers; }
  size_t size() const { return count; }
};
enum class Scalar {
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  Bool,
  BFloat16,
  UInt16,
  UInt32,
  UInt64,
  Other
};  // as at::ScalarType names them
template <class T>
struct FakeTensor {
  std::vector<T> elements;
  Scalar type = Scalar::Float;
  int64_t sizes_[2] = {0, 1}, strides_[2] = {1, 1};
  bool contiguous = true, cpu = true, exists = true;

  explicit FakeTensor(std::vector<T> values) : elements(std::move(values)) {
    sizes_[0] = static_cast<int64_t>(elements.size());
  }
  void* data_ptr() const { return const_cast<T*>(elements.data()); }
  bool is_contiguous() const { return contiguous; }
  bool is_cpu() const { return cpu; }
  bool defined() const { return exists; }
  size_t nbytes() const { return elements.size() * sizeof(T); }
  Scalar scalar_type() const { return type; }
  Numbers sizes() const { return {sizes_, 2}; }
  Numbers strides() const { return {strides_, 2}; }
};

TEST(TypedLaunch, pointers_and_numbers_reach_their_parameters) {
  std::vector<float> x(1000, 2.0f), out(1000);
  EXPECT_EQ(EXEC_KERNEL_CMD(scale, 7, out.data(), x.data(), 1000, 1.5f, -3), 0);
  EXPECT_EQ(out, std::vector<float>(1000, 0.0f));
  EXPECT_EQ(EXEC_KERNEL_ASYNC(scale, 7, nullptr, out.data(), x.data(), 999u, 2, 1LL), 0);
  EXPECT_EQ(out[998], 5.0f);
  EXPECT_EQ(out[999], 0.0f);
}

TEST(TypedLaunch, arrays_are_pointers) {
  const float x[3] = {1, 2, 3};
  float out[3] = {};
  EXPECT_EQ(EXEC_KERNEL_CMD(scale, 1, out, x, 3, 1, 0), 0);
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3));
}

TEST(TypedLaunch, tensors_reach_pointer_parameters_and_carry_their_extent) {
  const FakeTensor<float> x({1, 2, 3});
  FakeTensor<float> out({0, 0, 0});
  EXPECT_EQ(EXEC_KERNEL_CMD(scale, 2, out, x, x.elements.size(), 10.0, 0), 0);
  EXPECT_THAT(out.elements, testing::ElementsAre(10, 20, 30));
  int64_t extent = 0;
  EXPECT_EQ(EXEC_KERNEL_CMD(report_extent, 1, &extent, x), 0);
  EXPECT_EQ(extent, 12);
  EXPECT_EQ(EXEC_KERNEL_CMD(report_extent, 1, &extent, x.elements.data()), 0);
  EXPECT_EQ(extent, -1) << "nothing is known about a raw pointer";
}

TEST(TypedLaunch, half_and_bool_parameters_take_numbers) {
  float out = 0;
  EXPECT_EQ(EXEC_KERNEL_CMD(takes_half, 1, &out, 0.5, true), 0);
  EXPECT_EQ(out, 0.5f);
  EXPECT_EQ(EXEC_KERNEL_CMD(takes_half, 1, &out, 2, 0), 0);
  EXPECT_EQ(out, -1.0f);
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(takes_half, 1, &out, 70000.0, true); }),
              HasSubstr("argument 2 is 70000, which does not fit f16"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(takes_half, 1, &out, 1.0, 2); }),
              HasSubstr("argument 3 is 2, which does not fit bool"));
}

TEST(TypedLaunch, a_wrong_count_or_kind_names_both_signatures) {
  float out[1] = {};
  const std::string few = error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, 5); });
  EXPECT_THAT(few, HasSubstr("scale: called as (f32*, i32), "
                             "declared as (f32*, const f32*, u32, f64, i8)"));
  EXPECT_THAT(few, HasSubstr("fix: pass 5 arguments"));
  const std::string kind = error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, 5, out, 1.0, 1); });
  EXPECT_THAT(kind, HasSubstr("called as (f32*, i32, f32*, f64, i32)"));
  EXPECT_THAT(kind, HasSubstr("fix: argument 2: pass a pointer or a tensor"));
}

TEST(TypedLaunch, a_wrong_element_type_names_both) {
  float out[1] = {};
  double wrong[1] = {};
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, wrong, 1, 1, 1); }),
              HasSubstr("argument 2: the type given is f64*, but the parameter is const f32*"));
  FakeTensor<double> tensor({1});
  tensor.type = Scalar::Double;
  EXPECT_THAT(
      error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, tensor, 1, 1, 1); }),
      HasSubstr("argument 2: the type given is f64 tensor, but the parameter is const f32*"));
}

TEST(TypedLaunch, memory_that_a_kernel_cannot_use_is_refused) {
  float out[4] = {};
  FakeTensor<float> x({1, 2, 3, 4});
  x.contiguous = false;
  x.strides_[0] = 2;
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 4, 1, 1); }),
              HasSubstr("argument 2 has sizes [4, 1] and strides [2, 1]"));
  x.cpu = false;
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 4, 1, 1); }),
              HasSubstr("argument 2 is a tensor of another device"));
  x.exists = false;
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 4, 1, 1); }),
              HasSubstr("argument 2 is an undefined tensor"));
  const float constant[1] = {};
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, constant, constant, 1, 1, 1); }),
              HasSubstr("argument 1 is const f32*, but the parameter is f32*"));
}

TEST(TypedLaunch, a_written_tensor_may_not_end_inside_another) {
  FakeTensor<float> all({1, 2, 3, 4});
  struct View : FakeTensor<float> {
    const FakeTensor<float>* owner;
    size_t first, count;
    View(const FakeTensor<float>& of, size_t from, size_t many)
        : FakeTensor<float>({}), owner(&of), first(from), count(many) {}
    void* data_ptr() const { return const_cast<float*>(owner->elements.data() + first); }
    size_t nbytes() const { return count * sizeof(float); }
  };
  const View head(all, 0, 3), tail(all, 1, 3);
  EXPECT_EQ(error_of([&] { EXEC_KERNEL_CMD(scale, 1, all, all, 4, 2, 0); }), "no error");
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, head, tail, 3, 2, 0); }),
              HasSubstr("a tensor of 12 bytes that may be written overlaps one that reaches 4 "
                        "bytes further"));
  EXPECT_EQ(error_of([&] { EXEC_KERNEL_CMD(scale, 1, tail, head, 0, 2, 0); }), "no error");
}

TEST(TypedLaunch, numbers_that_do_not_fit_are_refused_with_the_range) {
  float out[1] = {}, x[1] = {};
  const std::string negative = error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, -1, 1, 1); });
  EXPECT_THAT(negative, HasSubstr("scale: argument 3 is -1, which does not fit u32"));
  EXPECT_THAT(negative, HasSubstr("a whole number from 0 to 4294967295"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, int64_t{1} << 32, 1, 1); }),
              HasSubstr("argument 3 is 4294967296, which does not fit u32"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 2.5, 1, 1); }),
              HasSubstr("argument 3 is 2.5, which does not fit u32"));
  EXPECT_THAT(
      error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 1, (int64_t{1} << 53) + 1, 1); }),
      HasSubstr("argument 4 is 9007199254740993, which no f64 is\n  why: an integer goes to"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 1, 1, 128); }),
              HasSubstr("argument 5 is 128, which does not fit i8"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 1, 1, -129); }),
              HasSubstr("a whole number from -128 to 127"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 1, 1, ~0ull); }),
              HasSubstr("argument 5 is 18446744073709551615"));
  EXPECT_EQ(error_of([&] { EXEC_KERNEL_CMD(scale, 1, out, x, 1.0, 1, -128); }), "no error");
}

TEST(TypedLaunch, a_count_of_blocks_is_checked) {
  float out[1] = {}, x[1] = {};
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, -1, out, x, 1, 1, 1); }),
              HasSubstr("scale: a launch over -1 blocks"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(scale, int64_t{1} << 40, out, x, 1, 1, 1); }),
              HasSubstr("from 0 to 2147483647"));
  EXPECT_EQ(EXEC_KERNEL_CMD(scale, 0, out, x, 1, 1, 1), 0);
}

TEST(TypedLaunch, null_is_an_absent_pointer_and_what_a_kernel_throws_comes_back) {
  EXPECT_EQ(error_of([] { EXEC_KERNEL_CMD(always_throws, 3, nullptr); }), "thrown by the kernel");
}

// Arguments of an entry that PTO_KERNEL exports.
struct EntryCall {
  float out[2] = {}, x[2] = {1, 2};
  pto_tensor tensors[2] = {};
  uint64_t scalars[3] = {2, 0x4000000000000000, static_cast<uint64_t>(int64_t{-1})};  // 2.0
  pto_args args{};
  EntryCall() {
    tensors[0].data = out;
    tensors[1].data = x;
    for (pto_tensor& tensor : tensors) {
      tensor.type_code = 2;
      tensor.type_bits = 32;
      tensor.extent_bytes = 8;
    }
    tensors[1].flags = PTO_TENSOR_READ_ONLY;
    args.abi_version = PTO_ABI_VERSION;
    args.n_tensors = 2;
    args.tensors = tensors;
    args.n_scalars = 3;
    args.scalars = scalars;
  }
  std::string run() { return pto_launch(scale_entry, &args, 1) == 0 ? "" : pto_last_error(); }
};

TEST(TypedLaunch, an_exported_entry_unpacks_its_arguments) {
  EntryCall call;
  EXPECT_EQ(call.run(), "");
  EXPECT_THAT(call.out, testing::ElementsAre(1, 3));
}

TEST(TypedLaunch, an_exported_entry_refuses_a_wrong_call_with_both_signatures) {
  EntryCall few;
  few.args.n_scalars = 2;
  EXPECT_THAT(few.run(), HasSubstr("scale_entry: called as (f32 tensor, f32 tensor, 2 scalars), "
                                   "declared as (f32*, const f32*, u32, f64, i8)"));
  EntryCall type;
  type.tensors[1].type_bits = 64;
  EXPECT_THAT(
      type.run(),
      HasSubstr("argument 2: the type given is f64 tensor, but the parameter is const f32*"));
  EntryCall read_only;
  read_only.tensors[0].flags = PTO_TENSOR_READ_ONLY;
  EXPECT_THAT(read_only.run(), HasSubstr("argument 1 is read-only"));
  EntryCall gaps;
  const int64_t sizes[1] = {2}, strides[1] = {2};
  gaps.tensors[0].sizes = sizes;
  gaps.tensors[0].strides = strides;
  gaps.tensors[0].rank = 1;
  EXPECT_THAT(gaps.run(), HasSubstr("argument 1 has gaps"));
  EntryCall number;
  number.scalars[2] = 200;
  EXPECT_THAT(number.run(), HasSubstr("argument 5 is 200, which does not fit i8"));
}

TEST(TypedLaunch, kernel_entry_gets_one_slot_an_argument) {
  const float x[2] = {1, 2};
  FakeTensor<float> out({0, 0});
  EXPECT_EQ(EXEC_KERNEL_CMD(kernel_entry, 2, out, x, 1.5f, int8_t{-1}), 0);
  EXPECT_THAT(out.elements, testing::ElementsAre(0.5f, 2));
  int64_t given = 0;
  EXPECT_EQ(EXEC_KERNEL_ASYNC(inner::kernel_entry, 1, nullptr, &given, ~0ull), 0);
  EXPECT_EQ(given, -1);
  EXPECT_EQ(EXEC_KERNEL_CMD(not_kernel_entry, 1, &given), 0) << "typed: another name";
  EXPECT_EQ(given, 7);
}

TEST(TypedLaunch, kernel_entry_is_exported_like_a_typed_kernel) {
  EntryCall call;
  call.scalars[0] = call.scalars[1];
  call.scalars[1] = 3;
  EXPECT_EQ(pto_launch(scale_slots, &call.args, 2), 0) << pto_last_error();
  EXPECT_THAT(call.out, testing::ElementsAre(5, 7));
}

TEST(TypedLaunch, kernel_entry_refuses_memory_that_it_cannot_use) {
  FakeTensor<float> out({1, 2});
  out.contiguous = false;
  out.strides_[0] = 2;
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(kernel_entry, 1, out, out, 1.0, 1); }),
              HasSubstr("kernel_entry: argument 1 has sizes [2, 1] and strides [2, 1]"));
  out.exists = false;
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(kernel_entry, 1, out, out, 1.0, 1); }),
              HasSubstr("kernel_entry: argument 1 is an undefined tensor"));
}

}  // namespace
