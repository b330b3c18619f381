# SPDX-License-Identifier: Apache-2.0
"""All-reduce over four devices: as a ring of tasks, and by pto.comm.

In each step of the ring every device adds one piece of its tensor to its neighbour's; after n - 1
steps each piece is complete somewhere, and n - 1 more steps carry it around.
"""

from pathlib import Path

import numpy as np

import pto

SOURCE = Path(__file__).parent / "vector.cpp"


def ring(ctx: pto.Context, tensors: dict[int, pto.TensorHandle]) -> None:
    chips = ctx.peers()
    n = len(chips)
    for step in range(n - 1):
        for i in range(n):
            to = tensors[chips[(i + 1) % n]][(i - step) % n]
            piece = tensors[chips[i]][(i - step) % n]
            ins = [pto.Arg.input(to), pto.Arg.input(piece), pto.Arg.scalar(piece.shape[0])]
            ctx.submit(chips[(i + 1) % n], "add", [pto.Arg.output(to), *ins])
    for step in range(n - 1):
        for i in range(n):
            number = (i + 1 - step) % n
            there, here = tensors[chips[(i + 1) % n]], tensors[chips[i]]
            pto.comm.put(ctx, chips[i], there[number], here[number])


with pto.Runtime(level="host", devices=[0, 1, 2, 3]) as rt:
    add = pto.compile(kernels=[{"source": SOURCE, "symbol": "add"}])
    rt.register("ring", orch=ring, kernels={"add": add})
    rt.register("collective", orch=lambda ctx, tensors: pto.comm.all_reduce(ctx, tensors))
    values = np.random.default_rng(0).integers(-99, 99, (4, 4, 1000)).astype(np.float32)
    for name in ("ring", "collective"):
        tensors = {chip: rt.alloc((4, 1000)) for chip in rt.devices}
        for tensor, value in zip(tensors.values(), values, strict=True):
            tensor.numpy()[...] = value
        rt.run(name, tensors)
        for tensor in tensors.values():
            assert np.array_equal(tensor.numpy(), values.sum(0))
        print(name, "of 4 x 4000 numbers equals their sum on every device")
