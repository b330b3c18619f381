// SPDX-License-Identifier: Apache-2.0
// KernelArguments: reads the arguments of an operator's hand-written kernel from pto_args.
//
//     int32_t cut(const pto_args* args) {
//       const pto::KernelArguments in(args);
//       const auto rows = in.items(in.tensor(0).sizes[0]);  // of this block: rows.first, rows.last
//       const float* x = in.data<const float>(0);           // tensors: arguments, then outputs
//       const auto sizes = in.integers(0);                  // other arguments in schema order
//       return 0;
//     }
//
// Tensors and other arguments count separately. An absent optional keeps its place. A Tensor[]
// takes one place per tensor; among the other arguments its place holds its length. See
// pto/abi/define_operator.h for the layout.
// Invariant: it only points into the pto_args.
// Thread safety: immutable.
#pragma once

#include "pto/abi/host.h"

namespace pto {

class KernelArguments {
 public:
  explicit KernelArguments(const pto_args* args) : args_(*args) {}

  int tensors() const { return args_.n_tensors; }
  const pto_tensor& tensor(int index) const { return args_.tensors[index]; }
  bool is_absent(int index) const { return args_.tensors[index].flags & PTO_TENSOR_ABSENT; }
  template <class T>
  T* data(int index) const {
    return static_cast<T*>(args_.tensors[index].data);
  }

  // Read an argument whose kind is not optional.
  int64_t integer(int index) const { return static_cast<int64_t>(args_.scalars[index]); }
  double real(int index) const { return real_at(&args_.scalars[index]); }

  // Read an argument that may be None.
  bool is_none(int index) const { return count(index) < 0; }
  int64_t given_integer(int index) const { return *values(index); }
  double given_real(int index) const { return real_at(values(index)); }

  // An int[] and a str; empty for None.
  struct Integers {
    const int64_t* values;
    int64_t size;
    int64_t operator[](int64_t i) const { return values[i]; }
    const int64_t* begin() const { return values; }
    const int64_t* end() const { return values + size; }
  };
  struct Text {
    const char* characters;  // not terminated
    int64_t size;
    bool operator==(const char* other) const {
      int64_t i = 0;
      while (i < size && other[i] != '\0' && characters[i] == other[i]) ++i;
      return i == size && other[i] == '\0';
    }
  };
  Integers integers(int index) const { return {values(index), given(index)}; }
  Text text(int index) const {
    return {reinterpret_cast<const char*>(values(index)), given(index)};
  }

  // This block's share of all items: [first, last). Items fewer than blocks go to the first ones.
  struct Items {
    int64_t first, last;
  };
  Items items(int64_t all) const {
    const int64_t next = args_.block + int64_t{1};
    if (all < args_.blocks) return {next > all ? all : next - 1, next > all ? all : next};
    return {all * args_.block / args_.blocks, all * (args_.block + 1) / args_.blocks};
  }

  // The threads that share the blocks, the caller of the operator included.
  int threads() const { return args_.services->threads; }
  pto_services* services() const { return args_.services; }

  // Returns memory of the calling thread, valid until the block returns, or null.
  void* scratch(size_t bytes) const { return args_.services->scratch(args_.services, bytes); }

  // Fails the kernel: return in.fail("what\nwhy\nfix"), or one line.
  int32_t fail(const char* text) const { return args_.services->fail(args_.services, text); }
  // Fails the kernel for an index into an axis of `size` elements outside lowest .. size - 1.
  int32_t fail_index(int64_t index, int64_t lowest, int64_t size) const {
    char text[192];
    __builtin_snprintf(text, sizeof text,
                       "index %lld is out of range for an axis of size %lld\n"
                       "indices are at least %lld and less than %lld\ncheck the tensor of indices",
                       static_cast<long long>(index), static_cast<long long>(size),
                       static_cast<long long>(lowest), static_cast<long long>(size));
    return fail(text);
  }

 private:
  static double real_at(const void* bits) {
    double value;
    __builtin_memcpy(&value, bits, sizeof value);
    return value;
  }
  const int64_t* at(int index) const {
    return reinterpret_cast<const int64_t*>(static_cast<const char*>(args_.params) +
                                            args_.scalars[index]);
  }
  int64_t count(int index) const { return *at(index); }
  int64_t given(int index) const { return count(index) < 0 ? 0 : count(index); }
  const int64_t* values(int index) const { return at(index) + 1; }

  const pto_args& args_;
};

}  // namespace pto
