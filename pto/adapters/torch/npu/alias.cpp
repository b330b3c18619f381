// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/npu/alias.hpp"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <utility>

#include "pto/base/error_message.hpp"

namespace pto::torch_npu {
namespace {

// Returns the bits of a tensor's key set that say how its elements are read.
c10::DispatchKeySet keys(c10::DispatchKey backend, const at::Tensor& like) {
  c10::DispatchKeySet set(backend);
  if (like.is_conj()) set = set.add(c10::DispatchKey::Conjugate);
  if (like.is_neg()) set = set.add(c10::DispatchKey::Negative);
  if (like._is_zerotensor()) set = set.add(c10::DispatchKey::ZeroTensor);
  return set;
}

at::Tensor make(c10::Storage storage, c10::DispatchKey backend, const at::Tensor& like) {
  at::Tensor made = at::detail::make_tensor<at::TensorImpl>(std::move(storage), keys(backend, like),
                                                            like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  return made;
}

[[noreturn]] void refuse(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      error_message(c10::str("npu: a tensor of layout ", tensor.layout(), " on ", tensor.device()),
                    "tensors of npu devices are dense", "use it on the cpu, or call to_dense()"));
}

c10::Storage cpu_storage(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) refuse(tensor);
  check_memory(tensor);
  const c10::Storage& storage = tensor.storage();
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(), share(storage, c10::kCPU),
      c10::GetCPUAllocator(), storage.resizable()));
}

}  // namespace

void check_memory(const at::Tensor& tensor) {
  const size_t held = tensor.storage().nbytes();
  const size_t needed = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(), tensor.storage_offset());
  TORCH_CHECK(needed <= held,
              error_message(c10::str("npu: a tensor of sizes ", tensor.sizes(), " needs ", needed,
                                     " bytes of a storage that has ", held),
                            "the storage was resized, and the tensor was not",
                            "resize the storage back before the tensor is used"));
}

at::Tensor alias_of(const at::Tensor& tensor) {
  return make(cpu_storage(tensor), c10::DispatchKey::CPU, tensor);
}

at::Tensor alias_of(const at::Tensor& tensor, const c10::Storage& alias_storage) {
  return make(alias_storage, c10::DispatchKey::CPU, tensor);
}

at::Tensor npu_tensor(c10::Storage storage, const at::Tensor& like) {
  return make(std::move(storage), c10::DispatchKey::PrivateUse1, like);
}

at::Tensor Aliases::add(const at::Tensor& tensor) {
  c10::Storage storage;
  for (const Pair& pair : pairs_) {
    if (pair.tensor.is_same(tensor)) return pair.alias;
    if (tensor.has_storage() && pair.tensor.is_alias_of(tensor)) storage = pair.alias.storage();
  }
  if (!storage) storage = cpu_storage(tensor);
  at::Tensor alias = make(std::move(storage), c10::DispatchKey::CPU, tensor);
  const c10::DataPtr& data = alias.storage().data_ptr();
  pairs_.push_back({tensor, alias, data.get(), Access(block_of(data))});
  return alias;
}

at::Tensor Aliases::wrap(const at::Tensor& result, int device) {
  if (!result.defined() || !result.device().is_cpu()) return result;
  for (const Pair& pair : pairs_) {
    if (pair.alias.is_same(result)) return pair.tensor;
  }
  if (result.layout() != c10::kStrided || !result.has_storage()) refuse(result);
  const c10::Storage& storage = result.storage();
  for (const Pair& pair : pairs_) {
    if (pair.alias.storage().is_alias_of(storage)) return npu_tensor(pair.tensor.storage(), result);
  }
  return npu_tensor(adopted(storage, device), result);
}

c10::Storage Aliases::adopted(const c10::Storage& storage, int device) {
  c10::StorageImpl* const from = storage.unsafeGetStorageImpl();
  for (const Adopted& known : adopted_) {
    if (known.from == from) return known.to;
  }
  c10::Storage to(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(), adopt(device, storage), allocator(),
      /*resizable=*/true));
  adopted_.push_back({from, to});
  return to;
}

void Aliases::write_back() {
  for (Pair& pair : pairs_) {
    const at::Tensor &tensor = pair.tensor, &alias = pair.alias;
    const c10::Storage& storage = alias.storage();
    if (storage.data() != pair.data || storage.nbytes() != tensor.storage().nbytes()) {
      c10::StorageImpl* const grown = tensor.storage().unsafeGetStorageImpl();
      if (storage.data() != pair.data) {
        grown->set_data_ptr_noswap(adopt(tensor.device().index(), storage));
      }
      grown->set_nbytes(storage.nbytes());
    }
    if (tensor.sizes() != alias.sizes() || tensor.strides() != alias.strides() ||
        tensor.storage_offset() != alias.storage_offset()) {
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(),
                                                          alias.storage_offset());
    }
  }
}

}  // namespace pto::torch_npu
