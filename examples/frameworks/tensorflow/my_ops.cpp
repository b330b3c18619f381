// SPDX-License-Identifier: Apache-2.0
// MyAdd(x, y) and MyAddRelu(x, y) of TensorFlow, on the tile kernels of ../torch/kernels.hpp: a
// definition with a shape function, and a kernel for the CPU. The gradients are in my_ops.py.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include "../torch/kernels.hpp"

namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The shapes are equal, or one of them is a single element.
absl::Status shape_of(tensorflow::shape_inference::InferenceContext* context) {
  return tensorflow::shape_inference::BroadcastBinaryOpShapeFn(context);
}

REGISTER_OP("MyAdd")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {float, int32}")
    .SetShapeFn(shape_of);
REGISTER_OP("MyAddRelu")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {float, int32}")
    .SetShapeFn(shape_of);

// Whether the axes of `part` are the last ones of `whole`.
bool is_end_of(const TensorShape& part, const TensorShape& whole) {
  const int missing = whole.dims() - part.dims();
  for (int i = 0; missing >= 0 && i < part.dims(); ++i) {
    if (part.dim_size(i) != whole.dim_size(i + missing)) return false;
  }
  return missing >= 0;
}

template <class T, bool kRelu>
class Add : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor &x = context->input(0), &y = context->input(1);
    const bool is_y_part =
        x.dims() != y.dims() ? x.dims() > y.dims() : x.NumElements() >= y.NumElements();
    const Tensor &whole = is_y_part ? x : y, &part = is_y_part ? y : x;
    const bool is_one = part.NumElements() == 1 && part.dims() <= whole.dims();
    OP_REQUIRES(context, is_one || is_end_of(part.shape(), whole.shape()),
                absl::InvalidArgumentError(absl::StrCat(
                    "my_add: shapes ", x.shape().DebugString(), " and ", y.shape().DebugString(),
                    "\n  why: one is a single element or the last axes of the other\n",
                    "  fix: broadcast one of them first")));
    Tensor* out = nullptr;  // in the memory of an input that nobody else needs
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({is_y_part ? 0 : 1}, 0,
                                                                      whole.shape(), &out));
    const int64_t columns = is_one ? whole.NumElements() : part.NumElements();
    const int64_t rows = columns == 0 ? 0 : whole.NumElements() / columns;
    const int64_t blocks = std::clamp<int64_t>(whole.NumElements() >> 14, 1, 24);
    try {
      EXEC_KERNEL_CMD(my_ops::AddKernel<T>, blocks, out->flat<T>().data(), whole.flat<T>().data(),
                      part.flat<T>().data(), rows, columns, columns, 1, 0, is_one ? 0 : 1, kRelu);
    } catch (const std::exception& error) {
      context->CtxFailure(absl::InternalError(error.what()));
    }
  }
};

#define MY_OPS_KERNEL(name, Type, relu)                                                        \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU).TypeConstraint<Type>("T"), \
                          Add<Type, relu>)
MY_OPS_KERNEL("MyAdd", float, false);
MY_OPS_KERNEL("MyAdd", int32_t, false);
MY_OPS_KERNEL("MyAddRelu", float, true);
MY_OPS_KERNEL("MyAddRelu", int32_t, true);

}  // namespace
