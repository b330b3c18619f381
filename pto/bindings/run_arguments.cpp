// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/run_arguments.hpp"

#include <algorithm>
#include <cstring>

#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/tasks/book/box.hpp"

namespace nb = nanobind;

namespace pto::bindings {

void RunArguments::add(int type, nb::handle value, const std::string& dtype, size_t index) {
  if (type == kScalar) return add_scalar(value, dtype);
  nb::ndarray<nb::ro, nb::device::cpu> array;
  if (!nb::try_cast(value, array) || array.ndim() > size_t(PTO_MAX_RANK))
    fail({"argument " + std::to_string(index) +
              " is no array in the memory of this machine with at most " +
              std::to_string(PTO_MAX_RANK) + " dimensions",
          "tasks take arrays of NumPy, of PyTorch on the CPU, and those with DLPack or a buffer",
          "copy it: numpy.ascontiguousarray(x), also a field of packed records; x.cpu()"},
         ErrorKind::Type);
  if (array.data() == nullptr && array.size() > 0)
    fail({"argument " + std::to_string(index) + " has elements but no memory",
          "it stands for another tensor", "pass a tensor that owns its elements"});
  if (type != kInput) {
    nb::ndarray<nb::device::cpu> writable;
    if (!nb::try_cast(value, writable))
      fail({"argument " + std::to_string(index) + " is an output, but its memory is read-only",
            "tasks write outputs where they lie", "pass an array that can be written"});
  }
  const size_t rank = array.ndim();
  std::vector<int64_t> dims(2 * rank);
  for (size_t k = 0; k < rank; ++k) {
    dims[k] = int64_t(array.shape(k));
    dims[rank + k] = array.stride(k);
    if (dims[rank + k] < 0 && dims[k] > 1)
      fail({"argument " + std::to_string(index) + " has the stride " +
                std::to_string(dims[rank + k]) + " in dimension " + std::to_string(k),
            "a kernel that gets only the address of the first element would write past the memory",
            "pass a copy, or the array as it lies in memory: x[::-1] of a reversed one"});
  }
  dims_.push_back(std::move(dims));
  pto_tensor tensor{};
  tensor.data = const_cast<void*>(array.data());
  tensor.sizes = dims_.back().data();
  tensor.strides = dims_.back().data() + rank;
  tensor.rank = int32_t(rank);
  tensor.type_code = dtype == "bfloat16" ? dlpack_type(DType::BF16).code : array.dtype().code;
  tensor.type_bits = array.dtype().bits;
  tensor.type_lanes = 1;
  tensor.extent_bytes = -1;
  if (type == kInput) tensor.flags |= PTO_TENSOR_READ_ONLY;
  tensors_.push_back(tensor);
  kept_.push_back(std::move(array));
}

void RunArguments::add_scalar(nb::handle value, const std::string& dtype) {
  if (dtype == "int64") {
    scalars_.push_back(uint64_t(nb::cast<int64_t>(value)));
    kinds_.push_back(PTO_NUMBER_SIGNED);
  } else {
    const double number = nb::cast<double>(value);
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    scalars_.push_back(bits);
    kinds_.push_back(dtype == "float64" ? PTO_NUMBER_FLOAT64 : PTO_NUMBER_REAL);
  }
}

void RunArguments::fit(const TaskKernel& kernel) {
  for (size_t i = 0; i < scalars_.size(); ++i)
    scalars_[i] = kernel.slot(i, {scalars_[i], kinds_[i]});
  if (!kernel.numbers.empty()) std::fill(kinds_.begin(), kinds_.end(), uint8_t(PTO_NUMBER_ANY));
}

RunArguments read(const ArgumentList& args) {
  RunArguments arguments;
  for (size_t i = 0; i < args.size(); ++i)
    arguments.add(std::get<0>(args[i]), std::get<1>(args[i]), std::get<2>(args[i]), i);
  return arguments;
}

}  // namespace pto::bindings
