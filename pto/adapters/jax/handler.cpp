// SPDX-License-Identifier: Apache-2.0
// pto_xla_call: the one handler of XLA's foreign function interface; it runs every operator.
//
// Any program that can register a handler may use it: TensorFlow's XLA does, and JAX in two parts
// (__init__.py): pto_jax_instantiate, as a program is loaded, and pto_jax_call, which runs. A call
// site names its work in attributes: `pto.op`, the operator's name; `pto.index`, where to look for
// it first; `pto.counts`, as pto_operator_call::counts, if not every tensor is given once;
// `pto.operands`, the places of the attributes (in schema order, without tensors) that come as
// scalar operands after the tensors; and the other attributes by name, without those that are None.
// Errors, also of shapes and types, become XLA's, with our text.
// Thread safety: may run on any thread.
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "pto/abi/operator.h"
#include "pto/adapters/jax/executor.hpp"
#include "pto/adapters/jax/ffi.hpp"
#include "pto/adapters/jax/state.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto::jax_adapter {
namespace {

using namespace xla_ffi;

// Ours for XLA's number of an element type, or -1.
int32_t dtype_of(xla_ffi::DataType type) {
  static constexpr FrameworkTypes kTypes(kPred, kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64, kF16,
                                         kBF16, kF32, kF64);
  return kTypes.ours(type);
}

[[noreturn]] void fail_site(const std::string& what) {
  fail({what, "the call site was not made by this version of the adapter",
        "export or compile the program again"});
}

// The call site's attributes by name.
class SiteAttributes {
 public:
  explicit SiteAttributes(const Attributes& attributes) : attributes_(attributes) {}

  // Returns the value of an attribute of this type, or null.
  const void* find(std::string_view name, int32_t type) const {
    for (int64_t i = 0; i < attributes_.size; ++i) {
      const Text& found = *attributes_.names[i];
      if (found.bytes != name.size() || std::memcmp(found.data, name.data(), name.size()) != 0)
        continue;
      if (attributes_.types[i] == type) return attributes_.items[i];
      fail_site("attribute " + std::string(name) + " is of kind " +
                std::to_string(attributes_.types[i]) + ", expected " + std::to_string(type));
    }
    return nullptr;
  }

  const Scalar* scalar(std::string_view name) const {
    return static_cast<const Scalar*>(find(name, kScalar));
  }

  std::span<const int64_t> integers(std::string_view name) const {
    const auto* array = static_cast<const Array*>(find(name, kArray));
    if (!array) return {};
    if (array->dtype != kS64) fail_site("attribute " + std::string(name) + " is no list of int64");
    return {static_cast<const int64_t*>(array->data), array->size};
  }

 private:
  const Attributes& attributes_;
};

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

int64_t integer_of(const Scalar& scalar, const char* name) {
  switch (scalar.dtype) {
    case kPred:
      return load<uint8_t>(scalar.value) != 0;
    case kS32:
      return load<int32_t>(scalar.value);
    case kS64:
      return load<int64_t>(scalar.value);
    default:
      fail_site("attribute " + std::string(name) + " is no integer");
  }
}

double real_of(const Scalar& scalar, const char* name) {
  if (scalar.dtype == kF32) return load<float>(scalar.value);
  if (scalar.dtype == kF64) return load<double>(scalar.value);
  fail_site("attribute " + std::string(name) + " is no number");
}

// Finds the operator that a call site names.
const pto_operator& find_operator(const SiteAttributes& site) {
  const auto* name = static_cast<const Text*>(site.find("pto.op", kString));
  if (!name) fail_site("a call site names no operator");
  const std::string_view wanted(name->data, name->bytes);
  if (const Scalar* index = site.scalar("pto.index")) {
    const auto place = static_cast<int32_t>(integer_of(*index, "pto.index"));
    const pto_operator* op = place < 0 ? nullptr : pto_operator_at(place);
    if (op && op->name == wanted) return *op;
  }
  const std::string text(wanted);
  if (const pto_operator* op = pto_operator_find(text.c_str())) return *op;
  fail({text + ": there is no operator of this name in this process",
        "the program was made in another process, where it was defined",
        "import what defines it before running the program"});
}

const pto_operator& operator_of(const SiteAttributes& site, SiteState* state) {
  if (const pto_operator* const op = state ? state->op() : nullptr) return *op;
  const pto_operator& op = find_operator(site);
  if (state) state->set_op(op);
  return op;
}

// One call: converts XLA's frame to the plain arguments of the operator.
class CustomCall {
 public:
  // `state`: what is kept with the call site, or null.
  CustomCall(const CallFrame& frame, SiteState* state)
      : frame_(frame), state_(state), site_(frame.attributes), op_(operator_of(site_, state)) {}

  void run() {
    take_tensors();
    take_attributes();
    const pto_operator_call call = {
        &op_, tensors_.data(), counts_.data(), attributes_.data(), &CustomCall::allocate,
        this, nullptr,         nullptr};
    const XlaThreads threads(frame_);
    // A known site does not read its attributes again, so it cannot be used for calls with
    // operands.
    const bool is_fixed = state_ && n_operands_ == static_cast<int64_t>(n_tensors_);
    if (pto_operator_site_run(is_fixed ? state_->site() : nullptr, &call) != 0)
      throw std::runtime_error(wrong_.empty() ? pto_operator_error() : wrong_);
  }

 private:
  const Buffer& next_operand() {
    if (n_operands_ >= frame_.arguments.size || frame_.arguments.types[n_operands_] != kBufferType)
      fail_site(std::string(op_.name) + ": " + std::to_string(frame_.arguments.size) +
                " operands are too few");
    return *frame_.arguments.items[n_operands_++];
  }

  void take_tensors() {
    const std::span<const int64_t> counts = site_.integers("pto.counts");
    size_t place = 0;
    for (int i = 0; i < op_.n_arguments; ++i) {
      const pto_operator_argument& argument = op_.arguments[i];
      if (!is_tensor(argument)) continue;
      if (!counts.empty() && place >= counts.size())
        fail_site(std::string(op_.name) + ": pto.counts is too short");
      const int64_t count = counts.empty() ? 1 : counts[place];
      counts_.at(place++) = static_cast<int32_t>(count);
      for (int64_t n = 0; n < count; ++n) take_tensor(argument);
    }
  }

  void take_tensor(const pto_operator_argument& argument) {
    const Buffer& buffer = next_operand();
    if (n_tensors_ == PTO_MAX_TENSORS) {
      fail({std::string(op_.name) + ": a call with more than " + std::to_string(PTO_MAX_TENSORS) +
                " tensors",
            "a kernel takes no more", "join some of them, or call the operator on parts"});
    }
    pto_tensor_ref& tensor = tensors_[n_tensors_++];
    tensor = {buffer.data, buffer.sizes, nullptr, static_cast<int32_t>(buffer.rank),
              dtype_of(buffer.dtype)};
    if (tensor.dtype >= 0) return;
    fail({std::string(op_.name) + ": " + argument.name + " has XLA's element type " +
              std::to_string(buffer.dtype),
          "kernels exist for bool, integers, f16, bf16, f32 and f64", "convert it first"},
         ErrorKind::Type);
  }

  void take_attributes() {
    std::span<const int64_t> operands = site_.integers("pto.operands");
    int place = 0;
    for (int i = 0; i < op_.n_arguments; ++i) {
      const pto_operator_argument& argument = op_.arguments[i];
      if (is_tensor(argument)) continue;
      pto_operator_value& value = attributes_.at(static_cast<size_t>(place));
      if (!operands.empty() && operands[0] == place) {
        operands = operands.subspan(1);
        const Buffer& buffer = next_operand();
        take_number(argument, {buffer.dtype, buffer.data}, value);
      } else {
        take_attribute(argument, value);
      }
      ++place;
    }
  }

  // Takes an attribute of the call site; a missing one is None.
  void take_attribute(const pto_operator_argument& argument, pto_operator_value& value) {
    const std::string_view name = argument.name;
    value.integer = 0;
    value.count = -1;
    if (argument.kind == PTO_KIND_STRING) {
      if (const auto* text = static_cast<const Text*>(site_.find(name, kString))) {
        value.text = text->data;
        value.count = static_cast<int64_t>(text->bytes);
      }
    } else if (argument.kind == PTO_KIND_INT_LIST) {
      if (site_.find(name, kArray)) {
        const std::span<const int64_t> list = site_.integers(name);
        value.integers = list.data();
        value.count = static_cast<int64_t>(list.size());
      }
    } else if (const Scalar* scalar = site_.scalar(name)) {
      take_number(argument, *scalar, value);
    }
    if (value.count < 0 && !is_optional(argument))
      fail_site(std::string(op_.name) + ": " + argument.name + " is missing");
  }

  static void take_number(const pto_operator_argument& argument, const Scalar& scalar,
                          pto_operator_value& value) {
    value.count = 0;
    if (argument.kind == PTO_KIND_FLOAT) {
      value.real = real_of(scalar, argument.name);
    } else {
      value.integer = integer_of(scalar, argument.name);
    }
  }

  // Returns XLA's result for an output, if it is the one that the operator makes. Outputs, and the
  // members of lists, are asked for in order.
  static void* allocate(void* self, int32_t, int32_t, const int64_t* sizes, int32_t rank,
                        int32_t dtype) {
    auto& call = *static_cast<CustomCall*>(self);
    const Buffers& results = call.frame_.results;
    const int64_t output = call.n_results_++;
    const std::span<const int64_t> made(sizes, static_cast<size_t>(rank));
    if (output >= results.size) return call.misfit(output, "has no place in the program");
    const Buffer& buffer = *results.items[output];
    const std::span<const int64_t> expected(buffer.sizes, static_cast<size_t>(buffer.rank));
    if (!std::equal(made.begin(), made.end(), expected.begin(), expected.end()) ||
        dtype_of(buffer.dtype) != dtype) {
      return call.misfit(output, "is " + std::string(name(static_cast<DType>(dtype))) +
                                     pto::text(made) + ", but the program was made for " +
                                     pto::text(expected));
    }
    return buffer.data ? buffer.data : self;  // an empty result is not written
  }

  void* misfit(int64_t output, const std::string& how) {
    wrong_ = std::string(op_.name) + ": output " + std::to_string(output) + " " + how;
    return nullptr;
  }

  const CallFrame& frame_;
  SiteState* state_;
  const SiteAttributes site_;
  const pto_operator& op_;
  int64_t n_operands_ = 0;  // that were taken
  int64_t n_results_ = 0;
  size_t n_tensors_ = 0;
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> tensors_;
  std::array<int32_t, PTO_MAX_TENSORS> counts_;
  std::array<pto_operator_value, PTO_MAX_ARGUMENTS> attributes_;
  std::string wrong_;
};

xla_ffi::Error* error_of(const CallFrame& frame, const char* text, ErrorCode code) {
  CreateErrorArguments arguments{sizeof arguments, nullptr, text, code};
  return frame.api->create_error(&arguments);
}

// Answers XLA's question which version of the interface is spoken; returns whether it was asked.
bool answers_metadata(const CallFrame& frame, int32_t minor_version) {
  if (!frame.extensions || frame.extensions->type != kMetadataExtension) return false;
  Metadata& metadata = *reinterpret_cast<MetadataExtension*>(frame.extensions)->metadata;
  metadata.version = {sizeof(Version), nullptr, kMajorVersion, minor_version};
  metadata.traits = 0;
  return true;
}

xla_ffi::Error* call(const CallFrame& frame, SiteState* state) {
  try {
    CustomCall(frame, state).run();
    return nullptr;
  } catch (const std::exception& error) {
    return error_of(frame, error.what(), kInvalidArgument);
  } catch (...) {
    return error_of(frame, "an exception of an unknown type", kInternal);
  }
}

}  // namespace
}  // namespace pto::jax_adapter

using pto::xla_ffi::CallFrame;
using pto::xla_ffi::Error;

extern "C" {

Error* pto_xla_call(CallFrame* frame) {
  if (pto::jax_adapter::answers_metadata(*frame, pto::xla_ffi::kMinorVersion)) return nullptr;
  if (frame->stage != pto::xla_ffi::kExecute) return nullptr;
  return pto::jax_adapter::call(*frame, nullptr);
}

Error* pto_jax_instantiate(CallFrame* frame) {
  if (pto::jax_adapter::answers_metadata(*frame, pto::xla_ffi::kStateMinorVersion)) return nullptr;
  return pto::jax_adapter::make_state(*frame);
}

Error* pto_jax_call(CallFrame* frame) {
  if (pto::jax_adapter::answers_metadata(*frame, pto::xla_ffi::kStateMinorVersion)) return nullptr;
  return pto::jax_adapter::call(*frame, pto::jax_adapter::state_of(*frame));
}

}  // extern "C"
