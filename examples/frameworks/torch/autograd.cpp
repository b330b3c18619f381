// SPDX-License-Identifier: Apache-2.0
// Gradients: functions for the key Autograd, which call the operators again below it. The function
// of a backend under this key would call itself for ever.
#include "my_ops.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace my_ops::autograd {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// An operator of this library, called through PyTorch so that it is traced, compiled, exported.
template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using Binary = at::Tensor(const at::Tensor&, const at::Tensor&);
using Scale = at::Tensor(const at::Tensor&, double);

at::Tensor summed_to(const at::Tensor& d, const at::Tensor& like) {
  return at::sum_to(d, like.sym_sizes());
}

template <bool kRelu>
struct Add : Function<Add<kRelu>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y) {
    static const auto op = find<Binary>(kRelu ? "my_ops::my_add_relu" : "my_ops::my_add");
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor out = op.call(x, y);
    context->save_for_backward(kRelu ? variable_list{x, y, out} : variable_list{x, y});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list d_outs) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor d = d_outs[0];
    if (kRelu) d = at::where(saved[2].gt(0), d, at::zeros_like(d));
    return {summed_to(d, saved[0]), summed_to(d, saved[1])};
  }
};
at::Tensor my_add(const at::Tensor& x, const at::Tensor& y) { return Add<false>::apply(x, y); }
at::Tensor my_add_relu(const at::Tensor& x, const at::Tensor& y) { return Add<true>::apply(x, y); }

struct Scaled : Function<Scaled> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double factor,
                            bool is_async) {
    static const auto op = find<Scale>("my_ops::my_scale");
    static const auto async = find<Scale>("my_ops::my_scale_async");
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["factor"] = factor;
    return (is_async ? async : op).call(x, factor);
  }
  static variable_list backward(AutogradContext* context, variable_list d_outs) {
    static const auto op = find<Scale>("my_ops::my_scale");
    return {op.call(d_outs[0], context->saved_data["factor"].toDouble()), {}, {}};
  }
};
at::Tensor my_scale(const at::Tensor& x, double factor) { return Scaled::apply(x, factor, false); }
at::Tensor my_scale_async(const at::Tensor& x, double factor) {
  return Scaled::apply(x, factor, true);
}

struct Relu : Function<Relu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    static const auto op = find<at::Tensor(const at::Tensor&)>("my_ops::my_relu");
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor out = op.call(x);
    context->save_for_backward({out});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list d_outs) {
    const at::Tensor out = context->get_saved_variables()[0];
    return {at::where(out.gt(0), d_outs[0], at::zeros_like(d_outs[0]))};
  }
};
at::Tensor my_relu(const at::Tensor& x) { return Relu::apply(x); }

struct Split : Function<Split> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, int64_t parts,
                               int64_t dim) {
    static const auto op =
        find<std::vector<at::Tensor>(const at::Tensor&, int64_t, int64_t)>("my_ops::my_split");
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["dim"] = dim;
    const std::vector<at::Tensor> results = op.call(x, parts, dim);
    context->saved_data["like"] = results[0];
    return results;
  }
  static variable_list backward(AutogradContext* context, variable_list d_outs) {
    for (at::Tensor& d : d_outs) {  // of a part that nobody used
      if (!d.defined()) d = at::zeros_like(context->saved_data["like"].toTensor());
    }
    return {at::cat(d_outs, context->saved_data["dim"].toInt()), {}, {}};
  }
};
std::vector<at::Tensor> my_split(const at::Tensor& x, int64_t parts, int64_t dim) {
  return Split::apply(x, parts, dim);
}

struct Convolution : Function<Convolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, c10::SymInt stride,
                            c10::SymInt padding) {
    static const auto op =
        find<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                        c10::SymInt, c10::SymInt)>("my_ops::my_conv");
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["inputs"] = bias.has_value() && bias->defined() ? 3 : 2;
    return op.call(x, weight, bias, stride, padding);
  }
  static variable_list backward(AutogradContext* context, variable_list d_outs) {
    using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
    static const auto op =
        find<Gradients(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt,
                       c10::SymInt, std::array<bool, 3>)>("my_ops::my_conv_backward");
    const variable_list saved = context->get_saved_variables();
    std::array<bool, 3> wanted{};
    const auto inputs = static_cast<size_t>(context->saved_data["inputs"].toInt());
    for (size_t i = 0; i < inputs; ++i) wanted[i] = context->needs_input_grad(i);  // given ones
    const auto [d_x, d_weight, d_bias] =
        op.call(d_outs[0], saved[0], saved[1], context->saved_data["stride"].toSymInt(),
                context->saved_data["padding"].toSymInt(), wanted);
    const auto given = [&](size_t i, const at::Tensor& d) { return wanted[i] ? d : at::Tensor(); };
    return {given(0, d_x), given(1, d_weight), given(2, d_bias), {}, {}};
  }
};
at::Tensor my_conv(const at::Tensor& x, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias, c10::SymInt stride, c10::SymInt padding) {
  return Convolution::apply(x, weight, bias, stride, padding);
}

}  // namespace
}  // namespace my_ops::autograd

TORCH_LIBRARY_IMPL(my_ops, Autograd, m) {
  m.impl("my_add", my_ops::autograd::my_add);
  m.impl("my_add_relu", my_ops::autograd::my_add_relu);
  m.impl("my_scale", my_ops::autograd::my_scale);
  m.impl("my_scale_async", my_ops::autograd::my_scale_async);
  m.impl("my_relu", my_ops::autograd::my_relu);
  m.impl("my_split", my_ops::autograd::my_split);
  m.impl("my_conv", my_ops::autograd::my_conv);
}
