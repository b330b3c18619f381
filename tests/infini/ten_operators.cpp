// SPDX-License-Identifier: Apache-2.0
// Operators of all kinds: factories, random numbers, lists, complex numbers, masks, namespaces.
#include <complex>
#include <thread>

#include "owning_tensor.hpp"

using namespace infini::ops;

namespace {

void factories_and_random_numbers() {
  double made[6];
  const Tensor out(made, {2, 3}, DataType::kFloat64);
  Full::Call(std::vector<std::int64_t>{2, 3}, 2.5, out);
  check(made[5] == 2.5, "Full");
  Arange::Call(0, 6, 1, Tensor(made, {6}, DataType::kFloat64));
  check(made[5] == 5, "Arange");
  Ones::Call(std::vector<int>{2, 3}, DataType::kFloat64, out);
  check(made[0] == 1, "Ones with a type, whose elements are copied");
  double same[6], other[6];
  const auto draw = [](double* to, std::uint64_t seed) {
    const Generator generator(seed), again = generator;
    Randn::Call(std::vector<std::int64_t>{6}, again, Tensor(to, {6}, DataType::kFloat64));
  };
  draw(made, 7), draw(same, 7), draw(other, 8);
  check(!std::memcmp(made, same, sizeof made), "a seed has its numbers");
  check(std::memcmp(made, other, sizeof made) != 0, "another has others");
  Random::Call(out, 0, 10, Generator(3), out);
  check(made[0] >= 0 && made[0] < 10, "Random over a tensor");
}

void lists_and_nulls() {
  float x[6] = {3, -1, 2, 0, 5, -4}, y[12];
  const Tensor a(x, {2, 3});
  Cat::Call(std::vector<Tensor>{a, a}, 1, Tensor(y, {2, 6}));
  check(y[3] == 3 && y[8] == -4, "Cat");
  Sum::Call(a, std::vector<std::int64_t>{0}, true, std::nullopt, Tensor(y, {1, 3}));
  check(y[0] == 3 && y[1] == 4, "Sum of an axis");
  Sum::Call(a, 1, Tensor(y, {2}));
  check(y[0] == 4 && y[1] == 1, "one axis for a list, without the last attributes");
  Clamp::Call(a, std::nullopt, 2, Tensor(y, {2, 3}));
  check(y[0] == 2 && y[5] == -4, "Clamp with null");
  const std::optional<Tensor> low = a[0];
  Clamp::Call(a, low, std::nullopt, Tensor(y, {2, 3}));
  check(y[0] == 3 && y[5] == 2, "Clamp with a tensor");
  std::int64_t row[2] = {1, 0};
  Index::Call(a, std::vector<std::optional<Tensor>>{Tensor(row, {2}, DataType::kInt64)},
              Tensor(y, {2, 3}));
  check(y[0] == 0 && y[3] == 3, "Index with a list of tensors");
  IndexSelect::Call(a, Tensor(row, {1}, DataType::kInt64), 0, Tensor(y, {1, 3}));
  check(y[1] == 5, "tensors stand before attributes");
  Div::Call(a, 2.0, "floor", Tensor(y, {2, 3}));
  check(y[0] == 1 && y[5] == -2, "Div with a text");
  HuberLoss::Call(a, a, 1, 1.0, Tensor(y, {}));
  check(y[0] == 0, "a kernel that resizes its output first");
  std::vector<Tensor> several{a, a};
  internal::ForeachNeg::Call(several,
                             std::vector<Tensor>{Tensor(y, {2, 3}), Tensor(y + 6, {2, 3})});
  check(y[0] == -3 && y[11] == 4, "ForeachNeg writes a list");
}

void types_and_namespaces() {
  std::complex<float> z[2] = {{1, 2}, {3, -4}}, w[2];
  Mul::Call(Tensor(z, {2}, DataType::kComplex64), std::complex<double>(0, 1),
            Tensor(w, {2}, DataType::kComplex64));
  check(w[1] == std::complex<float>(4, 3), "a complex factor");
  float x[4] = {0, 3, -2, 1};
  bool mask[4];
  Gt::Call(Tensor(x, {4}), 0, Tensor(mask, {4}, DataType::kBool));
  check(!mask[0] && mask[1] && !mask[2], "Gt");
  std::complex<float> spectrum[3];
  fft::Rfft::Call(Tensor(x, {4}), Tensor(spectrum, {3}, DataType::kComplex64));
  check(spectrum[0] == 2.0f, "fft::Rfft");
  float det = 0, q[4], entropy[4];
  linalg::Det::Call(Tensor(x, {2, 2}), Tensor(&det, {}));
  check(det == 6, "linalg::Det");
  special::Entr::Call(Tensor(x, {4}), Tensor(entropy, {4}));
  check(entropy[0] == 0 && entropy[3] == 0, "special::Entr");
  internal::Softmax::Call(Tensor(x, {2, 2}), -1, false, Tensor(q, {2, 2}));
  check(q[0] + q[1] == 1, "internal::Softmax");
  std::int64_t big = (std::int64_t{1} << 53) + 1, sum = 0;
  Add::Call(Tensor(&big, {}, DataType::kInt64), big, Tensor(&sum, {}, DataType::kInt64));
  check(sum == 2 * big, "a number keeps its 64 bits");
}

void threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([t] {
      float x[8], y[8];
      for (int i = 0; i < 200; ++i) {
        for (float& one : x) one = static_cast<float>(t);
        Neg::Call(Tensor(x, {8}), Tensor(y, {8}));
        if (y[7] != static_cast<float>(-t)) std::printf("FAILED: Neg in a thread\n"), ++failures;
      }
    });
  for (auto& one : all) one.join();
}

}  // namespace

int main() {
  factories_and_random_numbers();
  lists_and_nulls();
  types_and_namespaces();
  threads();
  return failures;
}
