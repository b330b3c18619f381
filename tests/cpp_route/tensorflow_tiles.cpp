// SPDX-License-Identifier: Apache-2.0
// An operator of TensorFlow whose tile kernel gets plain pointers and moves whole tiles.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>

#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

void add_whole_tiles(float* sum, const float* left, const float* right, int64_t length) {
  using Whole = Tile<TileType::Vec, float, 16, 256>;
  for (int64_t at = get_block_idx() * 4096; at < length; at += get_block_num() * 4096) {
    Whole a, b, c;
    TLOAD(a, GlobalTensor(left + at));
    TLOAD(b, GlobalTensor(right + at));
    TADD(c, a, b);
    TSTORE(GlobalTensor(sum + at), c);
  }
}

REGISTER_OP("TileSum")
    .Input("x: float")
    .Input("y: float")
    .Output("z: float")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

class TileSum : public tensorflow::OpKernel {
 public:
  explicit TileSum(tensorflow::OpKernelConstruction* context) : OpKernel(context) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &x = context->input(0), &y = context->input(1);
    tensorflow::Tensor* z = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &z));
    float* const out = z->flat<float>().data();
    EXEC_KERNEL_CMD(add_whole_tiles, 24, out, x.flat<float>().data(), y.flat<float>().data(),
                    x.NumElements());
  }
};

REGISTER_KERNEL_BUILDER(Name("TileSum").Device(tensorflow::DEVICE_CPU), TileSum);

}  // namespace
