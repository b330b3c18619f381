// SPDX-License-Identifier: Apache-2.0
// PyTorch's scaled_dot_product_attention by operators of ours, while a switch is on. What PyTorch
// fuses (compiled programs and the npu device call that operator too) keeps PyTorch's gradient and
// gets our loops; what PyTorch would compose of products is one operator of ours where that takes
// it. All else, and everything while the switch is off, runs in PyTorch's own kernels.
//
//     pto_torch_use_attention(1);   // pto.config.torch_attention = True
//
// Invariant: the first use registers kernels that stay; off, they call PyTorch's.
// Thread safety: any thread, also while others call attention.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <atomic>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <utility>

#include "pto/adapters/torch/error_text.hpp"

namespace pto::torch_adapter {
namespace {

using at::Tensor;
using Mask = std::optional<Tensor>;
using Scale = std::optional<double>;
using Named = std::initializer_list<std::pair<const char*, c10::IValue>>;

std::atomic<bool> is_on{false};

// Calls an operator with arguments by name, the others having their defaults; returns its results.
torch::jit::Stack call(const c10::OperatorHandle& op, const Named& named) {
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op.schema().arguments()) {
    const auto* const given = std::find_if(
        named.begin(), named.end(), [&](const auto& one) { return argument.name() == one.first; });
    stack.push_back(given == named.end() ? argument.default_value().value_or(c10::IValue())
                                         : given->second);
  }
  op.callBoxed(stack);
  return stack;
}

c10::OperatorHandle handle_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// PyTorch's backward gives an undefined tensor for a mask that there is not.
bool is_given(const Mask& mask) { return mask && mask->defined(); }

bool is_same_type(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask) {
  const at::ScalarType type = q.scalar_type();
  return (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
         k.scalar_type() == type && v.scalar_type() == type &&
         (!is_given(mask) || mask->scalar_type() == type || mask->scalar_type() == at::kBool);
}

// --- the operator that PyTorch fuses, and its gradient -------------------------------------------

bool is_fused(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, const Mask& mask) {
  return is_on && dropout == 0 && q.dim() == 4 && k.dim() == 4 && v.dim() == 4 &&
         q.size(3) == v.size(3) && is_same_type(q, k, v, mask);
}

std::tuple<Tensor, Tensor> fused(const Tensor& q, const Tensor& k, const Tensor& v, double dropout,
                                 bool is_causal, const Mask& mask, Scale scale) {
  if (!is_fused(q, k, v, dropout, mask))
    return at::native::_scaled_dot_product_flash_attention_cpu(q, k, v, dropout, is_causal, mask,
                                                               scale);
  // Results have the strides of PyTorch's fake tensors, on which compiled programs rely.
  Tensor out = at::empty_like(q);
  Tensor sums =
      at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat)).transpose(1, 2);
  static const c10::OperatorHandle op = handle_of("pto::attention_with_log_sums", "out");
  const at::AutoDispatchBelowADInplaceOrView below;
  call(op, {{"q", q},
            {"k", k},
            {"v", v},
            {"mask", is_given(mask) ? mask : Mask()},
            {"scale", scale},
            {"causal", is_causal},
            {"out0", out},
            {"out1", sums}});
  // PyTorch's backward wants a finite number for a query that sees no key.
  if (is_given(mask)) sums.masked_fill_(sums == -std::numeric_limits<float>::infinity(), 0);
  return {out, sums};
}

std::tuple<Tensor, Tensor, Tensor> fused_backward(const Tensor& d_out, const Tensor& q,
                                                  const Tensor& k, const Tensor& v,
                                                  const Tensor& out, const Tensor& sums,
                                                  double dropout, bool is_causal, const Mask& mask,
                                                  Scale scale) {
  if (!is_fused(q, k, v, dropout, mask))
    return at::native::_scaled_dot_product_flash_attention_cpu_backward(
        d_out, q, k, v, out, sums, dropout, is_causal, mask, scale);
  static const c10::OperatorHandle op = handle_of("pto::attention_with_log_sums_backward");
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto turned = [](const Tensor& x) { return x.transpose(1, 2); };
  const Tensor none = at::zeros({1}, sums.options()).expand(sums.sizes());
  const torch::jit::Stack found = call(op, {{"d_result", turned(d_out)},
                                            {"d_log_sums", none},
                                            {"q", turned(q)},
                                            {"k", turned(k)},
                                            {"v", turned(v)},
                                            {"mask", is_given(mask) ? mask : Mask()},
                                            {"result", turned(out)},
                                            {"log_sums", sums},
                                            {"scale", scale},
                                            {"causal", is_causal},
                                            {"layout", "LHD"},
                                            {"needs", 7}});  // not that of the mask
  // Positions come before heads in memory: the strides of PyTorch's fake tensors.
  return {turned(found[0].toTensor()), turned(found[1].toTensor()), turned(found[2].toTensor())};
}

// --- what PyTorch composes of products -----------------------------------------------------------

// Says whether a tensor is elements in memory, which no transformation or subclass follows.
bool is_plain(const Tensor& x) {
  constexpr c10::DispatchKeySet kOthers(
      {c10::DispatchKey::Python, c10::DispatchKey::Functionalize, c10::DispatchKey::Conjugate,
       c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor, c10::DispatchKey::FuncTorchBatched,
       c10::DispatchKey::FuncTorchGradWrapper});
  return x.is_cpu() && x.layout() == at::kStrided && !x.is_nested() &&
         !x.key_set().has_any(kOthers) && !x._fw_grad(0).defined();
}

bool has_fitting_shapes(const Tensor& q, const Tensor& k, const Tensor& v, bool grouped) {
  const int64_t rank = q.dim();
  if (rank < 2 || k.dim() != rank || v.dim() != rank) return false;
  for (int64_t axis = 0; axis < rank - 2; ++axis) {
    const int64_t own = q.size(axis), other = k.size(axis);
    const bool shares = grouped && axis == rank - 3 && other > 0 && own % other == 0;
    if ((own != other && !shares) || v.size(axis) != other) return false;
  }
  return q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2) && q.size(-1) > 0;
}

bool has_fitting_mask(const Tensor& q, const Tensor& k, const Mask& mask) {
  if (!is_given(mask)) return true;
  if (!is_plain(*mask) || mask->dim() > q.dim()) return false;
  for (int64_t axis = -mask->dim(); axis < 0; ++axis) {
    const int64_t size = axis == -1 ? k.size(-2) : q.size(axis);
    if (mask->size(axis) != 1 && mask->size(axis) != size) return false;
  }
  return true;
}

bool is_ours(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask, double dropout,
             bool is_causal, bool grouped) {
  return is_on && dropout >= 0 && dropout <= 1 && is_plain(q) && is_plain(k) && is_plain(v) &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set() && is_same_type(q, k, v, mask) &&
         has_fitting_shapes(q, k, v, grouped) && has_fitting_mask(q, k, mask) &&
         !(is_causal && is_given(mask)) && at::globalContext().userEnabledFlashSDP();
}

// Draws a seed, which is not negative, so that torch.manual_seed() repeats what is dropped.
int64_t drawn_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<int64_t>(generator.get<at::CPUGeneratorImpl>()->random64() >> 1);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask,
                 double dropout, bool is_causal, Scale scale, bool grouped) {
  using sdp::SDPBackend;
  if (!is_ours(q, k, v, mask, dropout, is_causal, grouped) ||
      at::native::_fused_sdp_choice_cpp(q, k, v, mask, dropout, is_causal, scale, grouped) !=
          static_cast<int64_t>(SDPBackend::math))
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale,
                                                    grouped);
  static const c10::OperatorHandle plain = handle_of("pto::attention");
  static const c10::OperatorHandle with_sums = handle_of("pto::attention_with_log_sums");
  const bool keeps_sums =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                                     (is_given(mask) && mask->requires_grad()));
  return call(keeps_sums ? with_sums : plain, {{"q", q},
                                               {"k", k},
                                               {"v", v},
                                               {"mask", is_given(mask) ? mask : Mask()},
                                               {"scale", scale},
                                               {"causal", is_causal},
                                               {"dropout", dropout},
                                               {"seed", dropout > 0 ? drawn_seed() : 0}})[0]
      .toTensor();
}

// PyTorch warns that it had a kernel already, which is the point here.
class Silence : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void register_kernels() {
  using torch::Library;
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const auto library = [](c10::DispatchKey key) {
    return new Library(Library::IMPL, "aten", key, __FILE__, __LINE__);  // as long as the process
  };
  Library* const cpu = library(c10::DispatchKey::CPU);
  cpu->impl("_scaled_dot_product_flash_attention_for_cpu", &fused);
  cpu->impl("_scaled_dot_product_flash_attention_for_cpu_backward", &fused_backward);
  // Not at the key CPU, where inference mode would find it: PyTorch would take the operator for one
  // that torch.export does not decompose.
  library(c10::DispatchKey::AutogradCPU)->impl("scaled_dot_product_attention", &attention);
}

}  // namespace
}  // namespace pto::torch_adapter

// Turns the switch on or off. Returns null, or the text of the error.
extern "C" const char* pto_torch_use_attention(int32_t on) {
  using namespace pto::torch_adapter;
  return error_text([on] {
    if (on) {
      static const bool is_registered = (register_kernels(), true);
      static_cast<void>(is_registered);
    }
    is_on = on != 0;
  });
}
