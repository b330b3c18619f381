// SPDX-License-Identifier: Apache-2.0
// A program without Python and without PyTorch's headers: operators of ATen by <pto/aten.hpp>. It
// prints what differs from what it computes itself; tests/test_aten_cpp.py builds and runs it.
#include <pto/aten.hpp>

#include <cmath>
#include <thread>

#include "aten_checks.hpp"

using namespace pto::aten;

namespace {

void values(const Library& torch) {
  float x[6] = {3, -1, 2, 0, 5, -4}, out[6];
  const Tensor a(x, {2, 3}), b(out, {2, 3}), columns(x, {3, 2}, {1, 3});
  torch.call("add.out", {a, a, scalar(2), b});
  for (int i = 0; i < 6; ++i) check(out[i] == 3 * x[i], "add.out");
  const auto sorted = torch.call("sort", {a, -1, true});
  check(sorted[0].tensor().data<float>()[0] == 3 && sorted[1].tensor().data<int64_t>()[0] == 0,
        "sort");
  check(torch.call("sum", {a})[0].tensor().data<float>()[0] == 5, "sum");
  check(torch.call("sum.dim_IntList", {a, 1})[0].tensor().sizes().size() == 1, "int[1] of an int");
  check(torch.call("neg", {columns})[0].tensor().sizes() == std::vector<int64_t>{3, 2}, "strides");
  const auto joined = torch.call("cat", {{a, a}, 1})[0].tensor();
  check(joined.sizes()[1] == 6, "a list of tensors");
  const auto parts = torch.call("split.Tensor", {a, 2, 1})[0].list();
  check(parts.size() == 2 && parts[1].tensor().sizes()[1] == 1, "results in a list");
  check(torch.call("relu_", {a})[0].tensor().data<float>() == x && x[1] == 0, "in place");
  const auto zeros = torch.call("zeros", {{4}, Type{2, 64}})[0].tensor();
  check(zeros.data<double>()[3] == 0, "a factory with a type");
  check(torch.call("is_floating_point", {a})[0].boolean(), "a bool comes back");
  check(torch.call("size.int", {a, 1})[0].integer() == 3, "an int comes back");
  std::complex<double> z[2] = {{1, 2}, {3, -4}};
  const auto conj = torch.call("conj_physical", {Tensor(z, {2})})[0].tensor();
  check(conj.data<std::complex<double>>()[1] == std::complex<double>(3, 4), "complex");
  check(torch.call("div.Tensor_mode", {a, 2.0, "floor"})[0].tensor().data<float>()[0] == 1, "text");
  const auto image = torch.call("empty.memory_format",
                                {{1, 2, 3, 3}, left_out, left_out, "cpu", false, "channels_last"});
  check(image[0].tensor().strides()[1] == 1, "names of a device and a memory format");
  Tensor grown = torch.call("empty.memory_format", {{0}})[0].tensor();
  torch.call("add.out", {a, a, 1, grown});
  check(grown.sizes() == std::vector<int64_t>{2, 3}, "an empty output takes the size");
  const auto nothing = torch.call("convolution_backward", {torch.call("ones", {{1, 1, 2}})[0],
                                                           torch.call("ones", {{1, 1, 4}})[0],
                                                           torch.call("ones", {{1, 1, 3}})[0],
                                                           nullptr,
                                                           {1},
                                                           {0},
                                                           {1},
                                                           false,
                                                           {0},
                                                           1,
                                                           {true, true, false}});
  check(nothing[0].tensor().sizes()[2] == 4, "bools, None and gradients");
}

void random_numbers(const Library& torch) {
  const auto numbers = [&](uint64_t seed) {
    return torch.call("randn.generator", {{8}, torch.generator(seed)})[0].tensor();
  };
  const Tensor one = numbers(7), same = numbers(7), other = numbers(8);
  check(!std::memcmp(one.data<float>(), same.data<float>(), 32), "a seed has its numbers");
  check(std::memcmp(one.data<float>(), other.data<float>(), 32) != 0, "another has others");
}

void refusals(const Library& torch) {
  float x[6] = {}, small[2] = {7, 7};
  const Tensor a(x, {2, 3}), b(small, {2});
  refused(
      [&] {
        torch.call("add.out", {a, a, 2, b});
      },
      "out is Float[2], the result is Float[2, 3]");
  check(small[0] == 7 && small[1] == 7, "a refused output is as it was");
  refused([&] { torch.call("addd", {a}); }, "no operator addd");
  refused([&] { torch.call("add.Tensor", {a}); }, "other is missing");
  refused([&] { torch.call("add.Tensor", {a, "x"}); }, "other is a text");
  refused([&] { torch.call("neg", {a, a}); }, "2 arguments");
  refused([&] { torch.call("mm", {a, a}); }, "cannot be multiplied");
  refused([&] { torch.call("hspmm", {a, a}); }, "no kernel for dense tensors");
  refused([&] { torch.call("zeros", {{2}, 3}); }, "dtype is an int");
  refused([&] { torch.call("neg", {a})[0].tensor().data<double>(); }, "32 bits, as 2, 64 bits");
  refused([&] { torch.call("neg", {a})[0].integer(); }, "is not an int");
  refused([&] { Tensor(x, {2, 3}, {1}); }, "2 sizes has 1 strides");
  refused([&] { Library("/nowhere"); }, "cannot be loaded");
}

void threads(const Library& torch) {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&torch, t] {
      std::vector<double> x(100, t);
      for (int i = 0; i < 200; ++i)
        if (torch.call("sum", {Tensor(x.data(), {100})})[0].tensor().data<double>()[0] != 100 * t)
          std::printf("FAILED: sum in a thread\n");
    });
  for (auto& one : all) one.join();
}

}  // namespace

int main(int, char** arguments) {
  const Library torch(arguments[1]);
  values(torch);
  random_numbers(torch);
  refusals(torch);
  threads(torch);
  std::printf("PyTorch %s has %d overloads; %d failures\n", torch.version().c_str(), torch.count(),
              failures);
  return failures != 0;
}
