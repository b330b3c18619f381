// SPDX-License-Identifier: Apache-2.0
// A program with <pto/aten/functions.hpp>: operators as functions, and calls of one key with other
// memory. It prints what differs from what it computes; tests/test_aten_cpp.py builds and runs it.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <pto/aten/functions.hpp>
#include <thread>

#include "aten_checks.hpp"

using namespace pto::aten;

namespace {

void ten_operators(const Library& torch) {
  float x[6] = {3, -1, 2, 0, 5, -4}, y[6] = {1, 2, 3, 4, 5, 6}, out[6];
  const Tensor a(x, {2, 3}), b(y, {2, 3}), place(out, {2, 3});
  const auto holds = [&](float (*wanted)(float, float), const char* what) {
    for (int i = 0; i < 6; ++i) check(out[i] == wanted(x[i], y[i]), what);
  };
  add_out(torch, a, b, 2, place);
  holds([](float p, float q) { return p + 2 * q; }, "add_out");
  sub_out(torch, a, b, 2, place);
  holds([](float p, float q) { return p - 2 * q; }, "sub_out");
  mul_out(torch, a, b, place);
  holds([](float p, float q) { return p * q; }, "mul_out");
  div_out(torch, a, b, place);
  holds([](float p, float q) { return p / q; }, "div_out");
  maximum_out(torch, a, b, place);
  holds([](float p, float q) { return p > q ? p : q; }, "maximum_out");
  check(neg(torch, a).data<float>()[0] == -3, "neg");
  check(sum(torch, a).data<float>()[0] == 5, "sum");
  check(sum_dim_IntList(torch, a, {1}).data<float>()[1] == 1, "sum along an axis");
  check(mm(torch, a, t(torch, b)).sizes() == std::vector<int64_t>{2, 2}, "mm of a view");
  check(cat(torch, {a, b}, 1).sizes()[1] == 6, "cat");
  check(sort(torch, a, -1, true)[1].tensor().data<int64_t>()[0] == 0, "sort");
  check(zeros(torch, {4}, Type{2, 64}).data<double>()[3] == 0, "a factory");
  const Tensor random = rand_generator(torch, {8}, torch.generator(7));
  const Tensor same = rand_generator(torch, {8}, torch.generator(7));
  check(!std::memcmp(random.data<float>(), same.data<float>(), 32), "random numbers of a seed");
  relu_(torch, a);
  check(x[1] == 0 && x[4] == 5, "relu_");
}

void same_key_other_memory(const Library& torch) {
  for (int i = 0; i < 50; ++i) {
    std::vector<float> x(5, float(i)), y(5, 1), out(5);
    const Tensor a(x.data(), {5}), b(y.data(), {5}), place(out.data(), {5});
    add_out(torch, a, b, i % 3, place);
    check(out[4] == float(i + i % 3), "memory and numbers of a call");
    const Tensor product = mul_Tensor(torch, a, b);
    add__Scalar(torch, a, 1);
    check(x[0] == float(i + 1) && product.data<float>()[0] == float(i), "in place");
    const Tensor made = stack(torch, {a, b});
    check(made.data<float>()[0] == float(i + 1), "tensors of a list");
  }
}

// What a call returns may lie in memory of an argument, or be an argument: it stays what it was.
void results_outlive_calls(const Library& torch) {
  float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};
  const Tensor view = torch.call("view", {Tensor(x, {4}), {2, 2}})[0].tensor();
  const Tensor other = torch.call("view", {Tensor(y, {4}), {2, 2}})[0].tensor();
  check(view.data<float>() == x && other.data<float>() == y, "views of two calls");
  const Tensor number = expand(torch, torch.call("mul.Tensor", {3.0, 1.0})[0].tensor(), {2});
  check(number.data<float>()[0] == 3, "numbers as tensors");
  const Tensor first = torch.call("relu_", {Tensor(x, {4})})[0].tensor();
  const Tensor second = torch.call("relu_", {Tensor(y, {4})})[0].tensor();
  check(first.data<float>() == x && second.data<float>() == y, "results that are arguments");
  Tensor made = zeros(torch, {3});
  for (int i = 0; i < 3; ++i) add__Scalar(torch, made, 1);
  check(made.data<float>()[2] == 3, "tensors of the library");
  for (int n = 1; n < 600; ++n) check(ones(torch, {n}).sizes()[0] == n, "more keys than plans");
}

void refusals(const Library& torch) {
  float x[6] = {1, 1, 1, 1, 1, 1}, small[2] = {7, 7};
  for (int again = 0; again < 2; ++again) {
    const Tensor a(x, {3}), b(small, {2});
    refused([&] { add_out(torch, a, a, 2, b); }, "the result is Float[3]");
    refused([&] { mm(torch, a, a); }, "PyTorch refuses the call");
    refused([&] { abs(torch, Tensor(static_cast<float*>(nullptr), {3})); }, "memory is null");
    refused([&] { neg(torch, Tensor(x, {3}, {-1})); }, "negative strides");
    add_out(torch, a, a, 1, Tensor(x + 3, {3}));
    check(x[3] == 2, "disjoint memory");
    refused([&] { add_out(torch, a, a, 1, Tensor(x + 1, {3})); }, "shares a part");
    check(x[1] == 1 && x[3] == 2 && small[0] == 7, "what is refused is as it was");
    x[3] = 1;
  }
  float* const nowhere = nullptr;
  neg(torch, Tensor(x, {3}));
  refused([&] { neg(torch, Tensor(nowhere, {3})); }, "memory is null");
}

void threads_and_a_fork(const Library& torch) {
  const auto work = [&torch](int t) {
    std::vector<double> x(100, t), out(100);
    for (int i = 0; i < 500; ++i) {
      mul_out(torch, Tensor(x.data(), {100}), Tensor(x.data(), {100}), Tensor(out.data(), {100}));
      if (out[99] != t * t) std::printf("FAILED: mul_out in a thread\n");
    }
  };
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) all.emplace_back(work, t);
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      work(9);
      torch.has("never.asked.for");
      _exit(0);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    check(status == 0, "a fork beside threads");
  }
  for (auto& one : all) one.join();
}

}  // namespace

int main(int, char** arguments) {
  const Library torch(arguments[1]);
  ten_operators(torch);
  same_key_other_memory(torch);
  results_outlive_calls(torch);
  refusals(torch);
  threads_and_a_fork(torch);
  std::printf("%d failures\n", failures);
  return failures != 0;
}
