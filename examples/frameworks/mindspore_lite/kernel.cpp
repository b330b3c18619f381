// SPDX-License-Identifier: Apache-2.0
// Operators of OpenPTO as a custom kernel of MindSpore Lite.
//
// A Custom node of the type PtoOperator has the attributes "pto_operator", the name, and
// "pto_call", the text of pto/adapters/mindspore/request.hpp; an exported MindIR holds both. Lite
// asks Infer for shapes, calls Prepare once, ReSize after a change of shapes, and Execute for each
// inference. An operator must be there without Python: defined in C++, as in operator.cpp.
#include <iostream>
#include <memory>

#include "include/registry/register_kernel.h"
#include "include/registry/register_kernel_interface.h"
#include "pto/adapters/mindspore/shapes.hpp"

namespace {

using mindspore::DataType;
using mindspore::MSTensor;
using pto::mindspore_adapter::infer_shapes;
using pto::mindspore_adapter::InferredResults;
using pto::mindspore_adapter::Request;

constexpr std::pair<DataType, int32_t> kTypes[] = {  // ours: pto::DType
    {DataType::kNumberTypeBool, 0},     {DataType::kNumberTypeInt32, 3},
    {DataType::kNumberTypeInt64, 4},    {DataType::kNumberTypeFloat16, 9},
    {DataType::kNumberTypeFloat32, 11}, {DataType::kNumberTypeFloat64, 12}};

int32_t ours(const Request& request, DataType type) {
  for (const auto& [theirs, dtype] : kTypes) {
    if (theirs == type) return dtype;
  }
  pto::mindspore_adapter::fail(std::string(request.op().name) + ": a tensor has the data type " +
                                   std::to_string(static_cast<int>(type)),
                               "kernels of this example are registered for six types",
                               "add it to kTypes");
}

DataType theirs(int32_t dtype) {
  for (const auto& [type, number] : kTypes) {
    if (number == dtype) return type;
  }
  throw std::runtime_error("a result has a data type that Lite is not told of");
}

std::unique_ptr<const Request> request_of(const mindspore::schema::Primitive* primitive) {
  std::string name, call;
  const auto* attributes = primitive->value_as_Custom()->attr();
  for (size_t i = 0; i < attributes->size(); ++i) {
    const auto* attribute = attributes->Get(static_cast<uint32_t>(i));
    const auto* bytes = attribute->data();
    const std::string text(bytes->data(), bytes->data() + bytes->size());
    if (attribute->name()->str() == "pto_operator") name = text;
    if (attribute->name()->str() == "pto_call") call = text;
  }
  return std::make_unique<const Request>(name, call);
}

// The shapes and types of the outputs; throws what is wrong.
InferredResults infer(const Request& request, const std::vector<MSTensor>& inputs) {
  if (inputs.size() != request.n_tensors()) throw std::runtime_error("wrong number of inputs");
  std::vector<int> ranks;
  std::vector<const int64_t*> shapes;
  std::vector<int32_t> dtypes;
  for (const MSTensor& input : inputs) {
    ranks.push_back(static_cast<int>(input.Shape().size()));
    shapes.push_back(input.Shape().data());
    dtypes.push_back(ours(request, input.DataType()));
  }
  return infer_shapes(request, ranks.data(), shapes.data(), dtypes.data());
}

// Lite knows codes only: the text goes to the log.
int logged(const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return mindspore::kLiteError;
}

class PtoKernel : public mindspore::kernel::Kernel {
 public:
  using Kernel::Kernel;

  int Prepare() override {
    try {
      request_ = request_of(primitive_);
      return ReSize();
    } catch (const std::exception& error) {
      return logged(error);
    }
  }

  int ReSize() override {
    try {
      const InferredResults results = infer(*request_, inputs_);
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i].Shape() != results.tensors.at(i)) outputs_[i].SetShape(results.tensors[i]);
      }
      return mindspore::kSuccess;
    } catch (const std::exception& error) {
      return logged(error);
    }
  }

  int Execute() override {
    try {
      std::vector<pto_tensor_ref> tensors;
      for (const MSTensor& input : inputs_) {
        tensors.push_back({const_cast<void*>(input.Data().get()), input.Shape().data(), nullptr,
                           static_cast<int32_t>(input.Shape().size()),
                           ours(*request_, input.DataType())});
      }
      call_ = request_->call(tensors.data());
      call_.allocate = &PtoKernel::allocate;
      call_.user = this;
      if (pto_operator_run(&call_) != 0) throw std::runtime_error(pto_operator_error());
      return mindspore::kSuccess;
    } catch (const std::exception& error) {
      return logged(error);
    }
  }

 private:
  // Lite has made room for the shapes that Infer and ReSize gave.
  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype) {
    auto& self = *static_cast<PtoKernel*>(user);
    const size_t place = pto::mindspore_adapter::place_of(self.call_, output, member);
    if (place >= self.outputs_.size()) return nullptr;
    MSTensor& tensor = self.outputs_[place];
    const bool fits = tensor.Shape() == std::vector<int64_t>(sizes, sizes + rank) &&
                      tensor.DataType() == theirs(dtype);
    return fits ? tensor.MutableData() : nullptr;
  }

  std::unique_ptr<const Request> request_;
  pto_operator_call call_ = {};
};

class PtoInterface : public mindspore::kernel::KernelInterface {
 public:
  mindspore::Status Infer(std::vector<MSTensor>* inputs, std::vector<MSTensor>* outputs,
                          const mindspore::schema::Primitive* primitive) override {
    try {
      for (const MSTensor& input : *inputs) {
        for (const int64_t size : input.Shape()) {
          if (size < 0) return mindspore::kLiteInferInvalid;  // known when it runs
        }
      }
      const InferredResults results = infer(*request_of(primitive), *inputs);
      for (size_t i = 0; i < outputs->size(); ++i) {
        (*outputs)[i].SetShape(results.tensors.at(i));
        (*outputs)[i].SetDataType(theirs(results.dtypes.at(i)));
      }
      return mindspore::kSuccess;
    } catch (const std::exception& error) {
      logged(error);
      return mindspore::kLiteError;
    }
  }
};

std::shared_ptr<mindspore::kernel::Kernel> create(const std::vector<MSTensor>& inputs,
                                                  const std::vector<MSTensor>& outputs,
                                                  const mindspore::schema::Primitive* primitive,
                                                  const mindspore::Context* context) {
  return std::make_shared<PtoKernel>(inputs, outputs, primitive, context);
}

std::shared_ptr<mindspore::kernel::KernelInterface> create_interface() {
  return std::make_shared<PtoInterface>();
}

constexpr auto kFloat32 = DataType::kNumberTypeFloat32;

REGISTER_CUSTOM_KERNEL(CPU, OpenPTO, kFloat32, PtoOperator, create)
REGISTER_CUSTOM_KERNEL_INTERFACE(OpenPTO, PtoOperator, create_interface)

}  // namespace
