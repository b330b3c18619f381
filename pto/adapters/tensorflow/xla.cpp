// SPDX-License-Identifier: Apache-2.0
// Runs operators inside functions with jit_compile=True as custom calls of XLA, whose handler is
// the JAX adapter's (pto_xla_call; handler.cpp there says what a call site holds).
//
// Optional, since XLA's headers take half a minute to compile: `python -m pto adapters build
// tensorflow --xla`. Loading it registers nothing.
// Thread safety: one thread at a time registers; any thread may call the rest.
#include <cstring>
#include <memory>
#include <string>

#include "pto/adapters/tensorflow/definition.hpp"
#include "pto/adapters/tensorflow/factory.hpp"
#include "pto/adapters/tensorflow/sizes.hpp"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/ffi/api/c_api.h"

// Declared here: its header needs those of MLIR, which are not installed.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace pto::tensorflow_adapter {
namespace {

constexpr const char* kTarget = "pto_xla_call";

// Quotes a text as MLIR does.
std::string quoted(const std::string& text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      result += {'\\', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      result += c;
    }
  }
  return result + "\"";
}

template <class Integer>
std::string list_text(const Integer* values, int64_t count) {
  std::string text = "array<i64";
  for (int64_t i = 0; i < count; ++i) text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

// Prints a number as its bits: MLIR's decimal forms are not those of C.
std::string real_bits(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llX : f64", static_cast<unsigned long long>(bits));
  return text;
}

std::string value_text(int32_t kind, const pto_operator_value& value) {
  switch (kind) {
    case PTO_KIND_BOOL:
      return value.integer != 0 ? "true" : "false";
    case PTO_KIND_FLOAT:
      return real_bits(value.real);
    case PTO_KIND_STRING:
      return quoted({value.text, static_cast<size_t>(value.count)});
    case PTO_KIND_INT_LIST:
      return list_text(value.integers, value.count);
    default:
      return std::to_string(value.integer) + " : i64";
  }
}

// Writes what the handler reads at the call site: a dictionary in MLIR's notation.
std::string call_site(const pto_operator& op, const Attributes& attributes) {
  std::string text = "{\"pto.op\" = " + quoted(op.name) +
                     ", \"pto.index\" = " + std::to_string(op.index) +
                     " : i64, \"pto.counts\" = " + list_text(attributes.counts(), op.n_tensors);
  for (int i = 0, attribute = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i])) continue;
    const pto_operator_value& value = attributes.values()[attribute++];
    if (value.count == -1) continue;
    text += ", " + quoted(op.arguments[i].name) + " = " + value_text(op.arguments[i].kind, value);
  }
  return text + "}";
}

class XlaKernel : public tensorflow::XlaOpKernel {
 public:
  XlaKernel(const pto_operator& op, const tensorflow::OpDef& definition,
            tensorflow::OpKernelConstruction* construction)
      : XlaOpKernel(construction), op_(op) {
    const tensorflow::AttrSlice attrs(construction->def());
    const auto find = [&](const std::string& name) { return attrs.FindByString(name); };
    OP_REQUIRES_OK(construction, attributes_.read(op, definition, find));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    for (int i = 0; i < op_.n_outputs; ++i) {
      OP_REQUIRES(context, op_.outputs[i].is_bounded == 0,
                  refuse(op_, "the size of its result is known only after it ran",
                         "XLA gives results their sizes before a program runs",
                         "call it outside of functions with jit_compile=True"));
    }
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    std::vector<pto_tensor_ref> tensors;
    std::vector<Size> sizes;
    for (int i = 0; i < context->num_inputs(); ++i) {
      const absl::StatusOr<xla::Shape> shape = context->InputXlaShape(i);
      OP_REQUIRES_OK(context, shape.status());
      const auto dims = shape->dimensions();
      operands.push_back(context->Input(i));
      shapes.push_back(xla_shape(shape->element_type(), dims));
      tensors.push_back({nullptr, nullptr, nullptr, static_cast<int32_t>(dims.size()),
                         ours(context->input_type(i))});
      for (const int64_t size : dims) sizes.push_back(Size::number(size));
    }
    std::vector<OutputShape> outputs;
    OP_REQUIRES_OK(
        context, infer_outputs(op_, attributes_, tensors, sizes, context->num_outputs(), outputs));
    std::vector<xla::Shape> results;
    for (const OutputShape& output : outputs) {
      std::vector<int64_t> dims;
      for (const Size& size : output.sizes) dims.push_back(size.value);
      xla::PrimitiveType type = xla::PRIMITIVE_TYPE_INVALID;
      OP_REQUIRES_OK(context, tensorflow::DataTypeToPrimitiveType(theirs(output.dtype), &type));
      results.push_back(xla_shape(type, dims));
    }
    const bool is_tuple = results.size() != 1;
    const xla::XlaOp call = xla::CustomCallWithLayout(
        context->builder(), kTarget, operands,
        is_tuple ? xla::ShapeUtil::MakeTupleShape(results) : results[0], shapes,
        call_site(op_, attributes_), /*has_side_effect=*/false, {}, nullptr,
        xla::CustomCallSchedule::SCHEDULE_NONE, xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
    for (int i = 0; i < context->num_outputs(); ++i) {
      context->SetOutput(i, is_tuple ? xla::GetTupleElement(call, i) : call);
    }
  }

 private:
  // Row-major: XLA lays the operands out so for a call that asks for it.
  template <class Sizes>
  static xla::Shape xla_shape(xla::PrimitiveType type, const Sizes& sizes) {
    return xla::ShapeUtil::MakeShapeWithDescendingLayout(
        type, absl::MakeConstSpan(sizes.data(), sizes.size()));
  }

  const pto_operator& op_;
  Attributes attributes_;
};

thread_local std::string error;

}  // namespace
}  // namespace pto::tensorflow_adapter

// The version of TensorFlow for which this library was built.
extern "C" const char* pto_tensorflow_version() { return PTO_TENSORFLOW_VERSION; }

// Gives XLA the handler of all operators. Returns null, or the text of the error.
extern "C" const char* pto_tensorflow_xla_use_handler(XLA_FFI_Handler* handler) {
  using namespace pto::tensorflow_adapter;
  const XLA_FFI_Api* api = xla::ffi::GetXlaFfiApi();
  XLA_FFI_Handler_Register_Args args{};
  args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  args.name = {kTarget, std::strlen(kTarget)};
  args.platform = {"Host", 4};
  args.bundle.execute = handler;
  XLA_FFI_Error* failure = api->XLA_FFI_Handler_Register(&args);
  if (!failure) return nullptr;
  XLA_FFI_Error_GetMessage_Args message{};
  message.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  message.error = failure;
  api->XLA_FFI_Error_GetMessage(&message);
  error = message.message;
  XLA_FFI_Error_Destroy_Args destroy{};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = failure;
  api->XLA_FFI_Error_Destroy(&destroy);
  return error.c_str();
}

// Lets XLA compile an operator that TensorFlow already knows. TensorFlow reads its registry of such
// operators once, at the first compilation, so the kernel is registered directly.
extern "C" void pto_tensorflow_xla_register(int32_t index) {
  using namespace pto::tensorflow_adapter;
  const pto_operator& op = *pto_operator_at(index);
  const std::string name = operator_name(op);
  tensorflow::kernel_factory::OpKernelRegistrar(
      tensorflow::KernelDefBuilder(name.c_str()).Device(tensorflow::DEVICE_CPU_XLA_JIT).Build(),
      name,
      std::make_unique<Factory<XlaKernel>>(
          op, std::make_shared<const tensorflow::OpDef>(definition_of(op))));
}
