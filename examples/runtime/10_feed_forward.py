# SPDX-License-Identifier: Apache-2.0
"""A feed-forward layer split over two devices, captured once and replayed on new inputs.

Each device holds half of the hidden units: relu(x up) down of its half; the halves are added.
"""

from typing import Any

import numpy as np

import pto

KERNELS = """
#include <pto/pto-inst.hpp>
using namespace pto;

constexpr int kRows = 32, kInner = 64, kHidden = 64;
template <int Rows, int Cols, class T = float>
using View = GlobalTensor<T, Shape<1, 1, 1, Rows, Cols>, Stride<1, 1, 1, Cols, 1>>;

// z = relu(x up) down
__global__ __aicore__ void Half(__gm__ float* z, __gm__ const float* x, __gm__ const float* up,
                                __gm__ const float* down, __gm__ float* hidden) {
  TileLeft<float, kRows, kInner> a;
  TileRight<float, kInner, kHidden> b;
  TileAcc<float, kRows, kHidden> product;
  TLOAD(a, View<kRows, kInner, const float>(x));
  TLOAD(b, View<kInner, kHidden, const float>(up));
  TMATMUL(product, a, b);
  TSTORE(View<kRows, kHidden>(hidden), product);
  Tile<TileType::Vec, float, kRows, kHidden> units, positive;
  TLOAD(units, View<kRows, kHidden>(hidden));
  TRELU(positive, units);
  TSTORE(View<kRows, kHidden>(hidden), positive);
  TLOAD(a, View<kRows, kHidden>(hidden));
  TLOAD(b, View<kHidden, kInner, const float>(down));
  TMATMUL(product, a, b);
  TSTORE(View<kRows, kInner>(z), product);
}
PTO_KERNEL(half, Half)
"""


def layer(ctx: pto.Context, args: dict[str, Any]) -> None:
    parts = {}
    for chip in ctx.peers():
        parts[chip], hidden = ctx.alloc((32, 64)), ctx.alloc((32, 64))
        weights = [pto.Arg.input(args["up"][chip]), pto.Arg.input(args["down"][chip])]
        ctx.submit(chip, "half", [pto.Arg.output(parts[chip]), pto.Arg.input(args["x"]), *weights,
                                  pto.Arg.output(hidden)])  # fmt: skip
    pto.comm.all_reduce(ctx, parts)
    first = ctx.peers()[0]
    pto.comm.put(ctx, first, args["y"], parts[first])


rng = np.random.default_rng(0)
with pto.Runtime(level="host", devices=[0, 1]) as rt:
    rt.register("layer", orch=layer, kernels={"half": pto.compile(kernels=[{"source": KERNELS}])})

    def shared(shape: tuple[int, ...]) -> pto.TensorHandle:
        tensor = rt.alloc(shape)
        tensor.numpy()[...] = rng.integers(-3, 4, shape)
        return tensor

    args: dict[str, Any] = {"x": shared((32, 64)), "y": rt.alloc((32, 64))}
    args |= {name: [shared((64, 64)) for _ in rt.devices] for name in ("up", "down")}
    graph = rt.capture("layer", args)
    for _ in range(3):
        args["x"].numpy()[...] = rng.integers(-3, 4, (32, 64))
        graph.replay(args)
        x, ups, downs = args["x"].numpy(), args["up"], args["down"]
        expected = sum(np.maximum(x @ up.numpy(), 0) @ down.numpy()
                       for up, down in zip(ups, downs, strict=True))  # fmt: skip
        assert np.array_equal(args["y"].numpy(), expected)
    print(f"{graph.tasks} tasks on 2 devices, replayed 3 times: equal to NumPy")
