// SPDX-License-Identifier: Apache-2.0
// The part of MindSpore Lite's C++ interface that kernel.cpp uses, written from its public
// documentation: names and signatures. It stands in for the headers of Lite's package in the test;
// runtime.cpp stands in for its library. Layouts are not those of Lite: a kernel for the real
// runtime is compiled with the real headers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mindspore {

enum class DataType : int {
  kNumberTypeBool = 30,
  kNumberTypeInt32 = 34,
  kNumberTypeInt64 = 35,
  kNumberTypeFloat16 = 42,
  kNumberTypeFloat32 = 43,
  kNumberTypeFloat64 = 44
};
enum StatusCode : int { kSuccess = 0, kLiteError = -1, kLiteInferInvalid = -501 };
using Status = StatusCode;
class Context;

class MSTensor {
 public:
  MSTensor(mindspore::DataType type, std::vector<int64_t> shape);
  mindspore::DataType DataType() const;
  void SetDataType(mindspore::DataType type);
  const std::vector<int64_t>& Shape() const;
  void SetShape(const std::vector<int64_t>& shape);
  std::shared_ptr<const void> Data() const;
  void* MutableData();

 private:
  struct Content;
  std::shared_ptr<Content> content_;
};

namespace schema {
struct Text {
  std::string text;
  std::string str() const { return text; }
};
struct Bytes {
  std::vector<uint8_t> bytes;
  const uint8_t* data() const { return bytes.data(); }
  size_t size() const { return bytes.size(); }
};
struct Attribute {
  Text name_;
  Bytes data_;
  const Text* name() const { return &name_; }
  const Bytes* data() const { return &data_; }
};
struct Attributes {
  std::vector<Attribute> all;
  size_t size() const { return all.size(); }
  const Attribute* Get(size_t i) const { return &all[i]; }
};
struct Custom {
  Attributes attr_;
  const Attributes* attr() const { return &attr_; }
};
struct Primitive {
  Custom custom;
  const Custom* value_as_Custom() const { return &custom; }
};
}  // namespace schema

namespace kernel {
class Kernel {
 public:
  Kernel(const std::vector<MSTensor>& inputs, const std::vector<MSTensor>& outputs,
         const schema::Primitive* primitive, const Context*)
      : inputs_(inputs), outputs_(outputs), primitive_(primitive) {}
  virtual ~Kernel() = default;
  virtual int Prepare() = 0;
  virtual int Execute() = 0;
  virtual int ReSize() = 0;

 protected:
  std::vector<MSTensor> inputs_, outputs_;
  const schema::Primitive* primitive_;
};

class KernelInterface {
 public:
  virtual ~KernelInterface() = default;
  virtual Status Infer(std::vector<MSTensor>* inputs, std::vector<MSTensor>* outputs,
                       const schema::Primitive* primitive) = 0;
};
}  // namespace kernel

namespace registry {
using CreateKernel = std::function<std::shared_ptr<kernel::Kernel>(
    const std::vector<MSTensor>& inputs, const std::vector<MSTensor>& outputs,
    const schema::Primitive* primitive, const Context* context)>;
using KernelInterfaceCreator = std::function<std::shared_ptr<kernel::KernelInterface>()>;

struct KernelReg {
  KernelReg(const std::string& arch, const std::string& provider, DataType type,
            const std::string& op_type, const CreateKernel& creator);
};
struct KernelInterfaceReg {
  KernelInterfaceReg(const std::string& provider, const std::string& op_type,
                     const KernelInterfaceCreator& creator);
};
}  // namespace registry
}  // namespace mindspore

#define REGISTER_CUSTOM_KERNEL(arch, provider, data_type, op_type, creator)     \
  static mindspore::registry::KernelReg g_##arch##provider##data_type##op_type( \
      #arch, #provider, data_type, #op_type, creator);
#define REGISTER_CUSTOM_KERNEL_INTERFACE(provider, op_type, creator)                        \
  static mindspore::registry::KernelInterfaceReg g_##provider##op_type(#provider, #op_type, \
                                                                       creator);
