// SPDX-License-Identifier: Apache-2.0
// Calls that return tensors of the caller's own type: one, two, a list.
#include "owning_tensor.hpp"

int main() {
  namespace ops = infini::ops;
  const OwningTensor a({1, 2, 3, 4, 5, 6}, {2, 3}), b({7, 8, 9, 10, 11, 12}, {3, 2});

  const OwningTensor sum = ops::Add::Call(a, a);
  check(sum.shape() == OwningTensor::Shape{2, 3} && sum.at<float>(5) == 12, "Add of two");
  const OwningTensor product = ops::Gemm::Call(a, b);
  check(product.shape() == OwningTensor::Shape{2, 2} && product.at<float>(0) == 58, "Gemm of two");
  const auto [values, indices] = ops::Sort::Call(b, 0, true);
  check(values.at<float>(0) == 11 && indices.dtype() == ops::DataType::kInt64, "Sort has two");
  check(indices.at<std::int64_t>(0) == 2, "Sort says where they were");
  const std::vector<OwningTensor> parts = ops::Split::Call(a, 2, 1);
  check(parts.size() == 2 && parts[1].shape() == OwningTensor::Shape{2, 1}, "Split has a list");
  check(parts[1].at<float>(1) == 6, "a part lies dense");
  const OwningTensor power = ops::Pow::Call(2.0, a);
  check(power.at<float>(5) == 64, "a number first");
  const OwningTensor equal = ops::Eq::Call(a, a);
  check(equal.dtype() == ops::DataType::kBool && equal.at<bool>(3), "a result of another type");
  const OwningTensor none = ops::Add::MakeReturnValue(a, a);
  check(none.shape() == a.shape() && none.dtype() == a.dtype(), "MakeReturnValue");
  refused([&] { ops::Mm::Call(a, a); }, "cannot be multiplied");
  return failures;
}
