// SPDX-License-Identifier: Apache-2.0
// Memory that no call may touch: shared, read-only, null, or beyond what 63 bits count. The program
// prints what is not refused; tests/test_aten_cpp.py builds and runs it.
#include <sys/wait.h>
#include <unistd.h>

#include <pto/aten.hpp>

#include "aten_checks.hpp"

using namespace pto::aten;

namespace {

// Each refusal comes with the first call and with those that have a plan, and writes nothing.
void shared_memory(const Library& torch) {
  float x[24], out[9] = {};
  for (int i = 0; i < 24; ++i) x[i] = float(i);
  const Tensor a(x, {3, 3}), behind(x + 4, {3, 3}), place(out, {3, 3});
  for (int again = 0; again < 3; ++again) {
    refused([&] { torch.call("add.out", {a, a, 1, behind}); }, "of which self shares a part");
    refused([&] { torch.call("add_.Tensor", {behind, a}); }, "of which other shares a part");
    refused([&] { torch.call("mm.out", {a, a, behind}); }, "of which self shares a part");
    refused([&] { torch.call("cat.out", {{a, a}, 0, Tensor(x + 8, {6, 3})}); }, "tensors shares");
    auto* const indices = reinterpret_cast<int64_t*>(x);
    refused(
        [&] {
          torch.call("sort.values",
                     {place, -1, false, Tensor(x + 2, {3, 3}), Tensor(indices, {3, 3})});
        },
        "of which indices shares a part");
    refused([&] { torch.call("neg.out", {a, Tensor(out, {3, 3}, {0, 1})}); }, "at one place");
    refused([&] { torch.call("mm.out", {a, a, Tensor(out, {3, 3}, {1, 1})}); }, "at one place");
    for (int i = 0; i < 24; ++i) check(x[i] == float(i), "memory of a refused call");
    torch.call("mm.out", {a, a, place});
    check(out[0] == 15 && out[8] == 111, "memory of its own");
  }
}

void memory_that_is_not_shared(const Library& torch) {
  float x[16] = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor even(x, {4}, {2}), odd(x + 1, {4}, {2}), apart(x + 8, {2, 2}, {3, 2});
  for (int again = 0; again < 3; ++again) {
    torch.call("neg.out", {even, odd});
    check(x[1] == -1 && x[7] == -7 && x[6] == 7, "elements between those of an input");
    torch.call("neg.out", {Tensor(x, {2, 2}, {4, 2}), apart});
    check(x[8] == -1 && x[10] == -3 && x[11] == -5 && x[13] == -7, "rows between each other");
    float square[4] = {1, 2, 3, 4};
    const Tensor both(square, {2, 2});
    torch.call("mm.out", {both, both, both});
    check(square[0] == 7 && square[3] == 22, "an output that is an input");
    torch.call("exp.out", {both, both});
    check(square[0] > 1096 && square[0] < 1097, "an output that is an input, by elements");
    float sum[4] = {1, 1, 1, 1}, one[4] = {1, 0, 0, 1};
    const Tensor added(sum, {2, 2}), unit(one, {2, 2});
    torch.call("addmm.out", {added, unit, unit, 1, 1, added});
    check(sum[0] == 2 && sum[1] == 1, "an output that is what is added to");
  }
}

void memory_that_is_none(const Library& torch) {
  float x[12] = {}, *const nowhere = nullptr;
  const float fixed[4] = {1, 2, 3, 4};
  constexpr int64_t kHuge = int64_t{1} << 62, kLarge = int64_t{1} << 32;
  for (int again = 0; again < 2; ++again) {
    refused([&] { torch.call("neg", {Tensor(x, {2, 2}, {kHuge, kHuge})}); }, "63 bits");
    refused([&] { torch.call("neg", {Tensor(x, {kLarge, kLarge})}); }, "63 bits");
    refused([&] { torch.call("neg", {Tensor(nowhere, {kLarge, kLarge})}); }, "63 bits");
    refused([&] { torch.call("neg", {Tensor(x, {-3})}); }, "negative sizes");
    refused([&] { torch.call("neg.out", {Tensor(x, {4}), Tensor(fixed, {4})}); }, "read-only");
    refused([&] { torch.call("neg_", {Tensor(fixed, {4})}); }, "read-only");
    check(torch.call("neg", {Tensor(fixed, {4})})[0].tensor().data<float>()[3] == -4, "const");
    torch.call("neg.out", {Tensor(fixed, {4}), Tensor(x, {4})});
    check(x[3] == -4, "const memory is read");
    refused([&] { torch.call("neg.out", {Tensor(x, {4}), 3.0}); }, "out is a float");
    refused([&] { torch.call("add_.Tensor", {3.0, Tensor(x, {4})}); }, "self is a float");
  }
}

void results_are_computed(const Library& torch) {
  std::complex<float> z[2] = {{1, 2}, {3, -4}};
  float x[2] = {1, -2};
  const auto conj = torch.call("conj", {Tensor(z, {2})})[0].tensor();
  check(conj.data<std::complex<float>>()[0] == std::complex<float>(1, -2), "a conjugate");
  check(torch.call("_neg_view", {Tensor(x, {2})})[0].tensor().data<float>()[1] == 2, "a negative");
}

void unknown_names(const Library& torch) {
  refused([&] { torch.call("addd", {}); }, "did you mean add?");
  refused([&] { torch.call("add.Tenso", {}); }, "did you mean Tensor?");
  refused([&] { torch.call("add", {}); }, "take one of add.Scalar");
  refused([&] { torch.call("nowhere::add", {}); }, "no name is spelled alike");
  check(!torch.has("addd") && torch.has("add.out"), "has");
}

// A kernel of the child would wait for PyTorch's threads, which did not survive the fork.
void a_fork_computes(const Library& torch) {
  std::vector<float> x(1 << 20, 1), out(1 << 20);
  const auto add = [&] {
    torch.call("add.out", {Tensor(x.data(), {1 << 20}), Tensor(x.data(), {1 << 20}), 1,
                           Tensor(out.data(), {1 << 20})});
    torch.call("exp.out", {Tensor(x.data(), {1 << 20}), Tensor(out.data(), {1 << 20})});
  };
  add();
  const pid_t child = fork();
  if (child == 0) alarm(30), add(), _exit(out[5] > 2 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  check(status == 0, "a forked process computes");
}

}  // namespace

int main(int, char** arguments) {
  const Library torch(arguments[1]);
  shared_memory(torch);
  memory_that_is_not_shared(torch);
  memory_that_is_none(torch);
  results_are_computed(torch);
  unknown_names(torch);
  a_fork_computes(torch);
  std::printf("%d failures\n", failures);
  return failures != 0;
}
