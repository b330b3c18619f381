// SPDX-License-Identifier: Apache-2.0
// pto_operator_run: from plain arguments to a compiled program, found or made, and its run.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "pto/base/error.hpp"
#include "pto/op/registry.hpp"

static_assert(sizeof(pto_operator_tensor) == sizeof(pto::TensorArgument));

namespace pto {
namespace {

std::atomic<KernelProvider> provider{nullptr};
thread_local std::string last_error;

// Numbers for the attribute values that a kernel is specialised on. Exact, not a hash: equal
// numbers are equal values.
uint64_t number_of(const std::string& values) {
  static std::shared_mutex mutex;
  static auto* const numbers = new std::map<std::string, uint64_t>;
  {
    const std::shared_lock lock(mutex);
    if (const auto found = numbers->find(values); found != numbers->end()) return found->second;
  }
  const std::unique_lock lock(mutex);
  return numbers->emplace(values, numbers->size() + 1).first->second;
}

// The arguments of one call, sorted by what happens to them.
class Arguments {
 public:
  explicit Arguments(const pto_operator_call& call) : call_(call) {
    take_tensors();
    take_attributes();
  }

  std::span<const TensorArgument> tensors() const { return {tensors_.data(), n_tensors_}; }
  std::span<const uint64_t> scalars() const { return {scalars_.data(), n_scalars_}; }
  const Signature& signature() const { return signature_; }

  std::shared_ptr<const Program> compile() const {
    const KernelProvider make = provider.load(std::memory_order_acquire);
    if (!make) {
      fail({std::string(call_.op->name) + ": there is no kernel for these arguments yet",
            "kernels are compiled by the Python package, which is not loaded in this process",
            "import pto"},
           ErrorKind::Runtime);
    }
    const std::vector<AttributeValue> values = attributes();
    return make({call_.op->index, signature_, values, given_});
  }

 private:
  void take_tensors() {
    for (int i = 0; i < call_.op->n_tensors; ++i) {
      const pto_operator_tensor& tensor = call_.tensors[i];
      if (tensor.rank < 0) continue;
      given_ |= 1u << i;
      tensors_[n_tensors_] = {tensor.data, tensor.sizes, tensor.strides, tensor.rank,
                              static_cast<DType>(tensor.dtype)};
      signature_.add(tensors_[n_tensors_++]);
    }
  }

  void take_attributes() {
    std::string specialised;
    const pto_operator& op = *call_.op;
    for (int i = 0, a = 0; i < op.n_arguments; ++i) {
      const int32_t kind = op.arguments[i].kind;
      if (kind == PTO_ARGUMENT_TENSOR || kind == PTO_ARGUMENT_OPTIONAL_TENSOR) continue;
      const pto_operator_value& value = call_.attributes[a++];
      if (kind == PTO_ARGUMENT_FLOAT) {
        scalars_[n_scalars_++] = std::bit_cast<uint64_t>(value.real);
      } else if (kind == PTO_ARGUMENT_STRING) {
        append(specialised, value.text_bytes);
        specialised.append(value.text, static_cast<size_t>(value.text_bytes));
      } else {
        append(specialised, value.integer);
      }
    }
    const bool all_given = given_ == (1u << op.n_tensors) - 1;
    if (specialised.empty() && all_given) return;
    append(specialised, given_);
    signature_.attributes = number_of(specialised);
  }

  static void append(std::string& bytes, int64_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::vector<AttributeValue> attributes() const {
    std::vector<AttributeValue> values;
    const pto_operator& op = *call_.op;
    for (int i = 0, a = 0; i < op.n_arguments; ++i) {
      const int32_t kind = op.arguments[i].kind;
      if (kind == PTO_ARGUMENT_TENSOR || kind == PTO_ARGUMENT_OPTIONAL_TENSOR) continue;
      const pto_operator_value& value = call_.attributes[a++];
      if (kind == PTO_ARGUMENT_FLOAT) {
        values.emplace_back(0.0);
      } else if (kind == PTO_ARGUMENT_STRING) {
        values.emplace_back(std::string(value.text, static_cast<size_t>(value.text_bytes)));
      } else if (kind == PTO_ARGUMENT_BOOL) {
        values.emplace_back(value.integer != 0);
      } else {
        values.emplace_back(value.integer);
      }
    }
    return values;
  }

  const pto_operator_call& call_;
  uint32_t given_ = 0;
  size_t n_tensors_ = 0, n_scalars_ = 0;
  Signature signature_;
  std::array<TensorArgument, Signature::kMaxTensors> tensors_;
  std::array<uint64_t, 24> scalars_;
};

void run(const pto_operator_call& call) {
  const Arguments arguments(call);
  OperatorKernels& kernels = operator_kernels(*call.op);
  const Program& program =
      kernels.last.get(kernels.owner, arguments.signature(), [&] { return arguments.compile(); });
  Call bound(program, arguments.tensors(), arguments.scalars());
  std::array<void*, Program::kMaxTensors> outputs;
  const auto n_outputs = static_cast<size_t>(call.op->n_outputs);
  for (size_t i = 0; i < n_outputs; ++i) {
    const auto output = static_cast<int>(i);
    const std::span<const int64_t> sizes = bound.output_sizes(output);
    outputs[i] = call.allocate(call.user, output, sizes.data(), static_cast<int32_t>(sizes.size()),
                               static_cast<int32_t>(program.spec().outputs[i].dtype));
    if (!outputs[i]) {
      fail({std::string(call.op->name) + ": no memory for output " + std::to_string(i) + " of " +
                std::to_string(bound.output_bytes(output)) + " bytes",
            "the host could not allocate it", "use smaller tensors or free memory"},
           ErrorKind::Runtime);
    }
  }
  bound.run({outputs.data(), n_outputs});
}

}  // namespace

void set_kernel_provider(KernelProvider make) { provider.store(make, std::memory_order_release); }

}  // namespace pto

int32_t pto_operator_run(const pto_operator_call* call) {
  try {
    pto::run(*call);
    return 0;
  } catch (const std::exception& error) {
    pto::last_error = error.what();
  } catch (...) {
    pto::last_error = "an exception of an unknown type";
  }
  return 1;
}

const char* pto_operator_error(void) { return pto::last_error.c_str(); }
