// SPDX-License-Identifier: Apache-2.0
// A made operator, with the memory that it asks for and a stream, and the runtime's calls.
#include <infini/ops.h>
#include <infini/rt.h>

namespace rt = infini::rt::runtime;

class NamedHandle : public infini::ops::Handle {
 public:
  std::unique_ptr<Handle> Clone() const override { return std::make_unique<NamedHandle>(*this); }
};

int main() {
  using infini::ops::Tensor;
  infini::rt::set_runtime_device_type(infini::rt::Device::Type::kCpu);
  const float numbers[4] = {4, 1, 3, 2};
  void *x = nullptr, *values = nullptr, *indices = nullptr, *workspace = nullptr;
  rt::Stream stream = nullptr;
  if (rt::Malloc(&x, sizeof numbers) || rt::Malloc(&values, sizeof numbers)) return 1;
  if (rt::Malloc(&indices, 4 * sizeof(std::int64_t)) || rt::StreamCreate(&stream)) return 2;
  rt::MemcpyAsync(x, numbers, sizeof numbers, rt::kMemcpyHostToDevice, stream);
  rt::Memset(values, 0, sizeof numbers);

  const Tensor input(x, {2, 2}), sorted(values, {2, 2});
  const Tensor places(indices, {2, 2}, infini::ops::DataType::kInt64);
  auto sort = infini::ops::Sort::Make(input, -1, false, sorted, places);
  const std::size_t bytes = sort->workspace_size_in_bytes();
  if (rt::Malloc(&workspace, bytes)) return 3;
  NamedHandle handle;
  handle.set_stream(stream);
  handle.set_workspace(workspace);
  handle.set_workspace_size_in_bytes(bytes);
  (*sort)(handle, input, -1, false, sorted, places);
  infini::ops::Sort::Call(handle, infini::ops::Config(), input, -1, 0, sorted, places);
  rt::StreamSynchronize(stream);

  const auto* first = static_cast<const float*>(values);
  if (first[0] != 1 || first[1] != 4 || static_cast<const std::int64_t*>(indices)[0] != 1) return 4;
  if (sorted.T().ToString().find("tensor([[1.0") != 0 || !sorted[1].IsContiguous()) return 5;
  try {
    static_cast<void>(Tensor(x, {2, 1, 2}).T());
    return 6;
  } catch (const pto::aten::Error& error) {
    if (std::string(error.what()).find("T() of a tensor of 3 axes") == std::string::npos) return 7;
  }
  for (void* memory : {x, values, indices, workspace}) rt::Free(memory);
  return rt::StreamDestroy(stream);
}
