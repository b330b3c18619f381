// SPDX-License-Identifier: Apache-2.0
// Stands in for MindSpore Lite's library in the test: keeps what is registered, and calls it in the
// order of its documentation: Infer, create, Prepare, then ReSize and Execute.
#include <cstdio>
#include <map>

#include "include/registry/register_kernel_interface.h"

namespace mindspore {

struct MSTensor::Content {
  mindspore::DataType type;
  std::vector<int64_t> shape;
  std::vector<float> data;
  void fit() {
    size_t elements = 1;
    for (const int64_t size : shape) elements *= size > 0 ? static_cast<size_t>(size) : 0;
    data.resize(elements);
  }
};

MSTensor::MSTensor(mindspore::DataType type, std::vector<int64_t> shape)
    : content_(new Content{type, std::move(shape), {}}) {
  content_->fit();
}
mindspore::DataType MSTensor::DataType() const { return content_->type; }
void MSTensor::SetDataType(mindspore::DataType type) { content_->type = type; }
const std::vector<int64_t>& MSTensor::Shape() const { return content_->shape; }
void MSTensor::SetShape(const std::vector<int64_t>& shape) {
  content_->shape = shape;
  content_->fit();
}
std::shared_ptr<const void> MSTensor::Data() const { return {content_, content_->data.data()}; }
void* MSTensor::MutableData() { return content_->data.data(); }

namespace registry {
namespace {
std::map<std::string, CreateKernel>& kernels() {
  static std::map<std::string, CreateKernel> all;
  return all;
}
std::map<std::string, KernelInterfaceCreator>& interfaces() {
  static std::map<std::string, KernelInterfaceCreator> all;
  return all;
}
}  // namespace

KernelReg::KernelReg(const std::string& arch, const std::string& provider, DataType,
                     const std::string& op_type, const CreateKernel& creator) {
  kernels()[arch + "/" + provider + "/" + op_type] = creator;
}
KernelInterfaceReg::KernelInterfaceReg(const std::string& provider, const std::string& op_type,
                                       const KernelInterfaceCreator& creator) {
  interfaces()[provider + "/" + op_type] = creator;
}
}  // namespace registry
}  // namespace mindspore

namespace {

using mindspore::DataType;
using mindspore::MSTensor;

mindspore::schema::Primitive primitive(const std::string& name, const std::string& call) {
  const auto attribute = [](const std::string& key, const std::string& value) {
    return mindspore::schema::Attribute{{key}, {{value.begin(), value.end()}}};
  };
  return {{{{attribute("pto_operator", name), attribute("pto_call", call)}}}};
}

bool expect(bool holds, const char* sentence) {
  std::printf("%s: %s\n", holds ? "ok" : "FAILED", sentence);
  return holds;
}

MSTensor counting(std::vector<int64_t> shape) {
  MSTensor tensor(DataType::kNumberTypeFloat32, std::move(shape));
  auto* data = static_cast<float*>(tensor.MutableData());
  for (int64_t i = 0; i < tensor.Shape()[0] * tensor.Shape()[1]; ++i) data[i] = float(i);
  return tensor;
}

bool runs() {
  const auto node = primitive("lite_scaled_add", "1,1,;f0x1p-1;");
  std::vector<MSTensor> inputs = {counting({2, 3}), counting({2, 3})};
  std::vector<MSTensor> outputs = {MSTensor(DataType::kNumberTypeFloat32, {0})};
  const auto interface = mindspore::registry::interfaces().at("OpenPTO/PtoOperator")();
  bool ok = expect(interface->Infer(&inputs, &outputs, &node) == mindspore::kSuccess &&
                       outputs[0].Shape() == std::vector<int64_t>{2, 3},
                   "Infer gives the shape of the result");
  const auto create = mindspore::registry::kernels().at("CPU/OpenPTO/PtoOperator");
  const auto kernel = create(inputs, outputs, &node, nullptr);
  ok &= expect(kernel->Prepare() == 0 && kernel->Execute() == 0, "the kernel runs");
  const auto* result = static_cast<const float*>(outputs[0].Data().get());
  ok &= expect(result[5] == 7.5F && result[1] == 1.5F, "the result is x + y / 2");
  for (MSTensor& input : inputs) input.SetShape({4, 1});
  ok &= expect(kernel->ReSize() == 0 && outputs[0].Shape() == std::vector<int64_t>{4, 1} &&
                   kernel->Execute() == 0,
               "it runs for another shape after ReSize");
  inputs[1].SetShape({5, 1});
  ok &= expect(kernel->ReSize() != 0, "shapes that do not fit are an error code and a text");
  inputs[1].SetShape({-1, 1});
  ok &= expect(interface->Infer(&inputs, &outputs, &node) == mindspore::kLiteInferInvalid,
               "a size that is not known yet is left to the run");
  const auto unknown = primitive("nonsense", "1,;");
  const auto other = create(inputs, outputs, &unknown, nullptr);
  return ok & expect(other->Prepare() != 0, "an operator that is not defined is an error code");
}

}  // namespace

int main() { return runs() ? 0 : 1; }
