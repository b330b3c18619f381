// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of calls from Python, as those of jitted functions, for bindings/argument.hpp.
//
// A call of eight tensors takes 1.0 us so, and 2.5 us by PyTorch's exchange interface and the two
// methods that tell whether PyTorch must handle a tensor itself. They read what is not plain.
// Thread safety: any thread that holds Python's lock.
#include <torch/csrc/autograd/python_variable.h>

#include <exception>

#include "pto/abi/limits.h"
#include "pto/abi/tensor.h"
#include "pto/adapters/torch/dtypes.hpp"
#include "pto/adapters/torch/plain_tensor.hpp"

namespace pto::torch_adapter {
namespace {

// Sets *read and returns 1 for a plain tensor.
int32_t read_tensor(PyObject* object, pto_tensor_ref* read) {
  if (!THPVariable_CheckExact(object)) return 0;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!is_plain_tensor(tensor)) return 0;
  c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  const int dtype = our_dtype(static_cast<int32_t>(tensor.scalar_type()));
  if (dtype < 0 || one.dim() > PTO_MAX_RANK || !one.has_storage()) return 0;
  try {
    *read = {one.mutable_data(), one.sizes().data(), one.strides().data(),
             static_cast<int32_t>(one.dim()), dtype};
  } catch (const std::exception&) {  // memory that may not be read in this way
    return 0;
  }
  return 1;
}

}  // namespace
}  // namespace pto::torch_adapter

extern "C" const void* pto_torch_tensor_reader_address() {
  return reinterpret_cast<const void*>(&pto::torch_adapter::read_tensor);
}
