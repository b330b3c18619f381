# SPDX-License-Identifier: Apache-2.0
"""Decodes tokens with one layer of DeepSeek V3.2 and one of Qwen3-MoE, and prints tokens a second
beside the eager module of transformers, where it is installed, else beside plain torch.

    python -m examples.models [--layer deepseek] [--small] [--steps 64] [--sequences 1]
        [--keys 2048] [--experts N]

Each step gives every sequence one token more. Weights and hidden states are random, bf16, in the
sizes of the real configurations; 16 of the 256 experts of DeepSeek's layer, for their memory.
`.venv-models/bin/python`, which ./dev test --models makes, has transformers.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import pto.torch  # noqa: F401 registers torch.ops.pto
from examples.models import eager
from examples.models.layers import (
    BF16,
    Deepseek,
    DeepseekSizes,
    Ours,
    Plain,
    Qwen3,
    Qwen3Sizes,
    angles,
)
from examples.models.pages import Pages

Layer = Deepseek | Qwen3


def layers(
    chosen: str | None, small: bool, experts: int | None
) -> Iterator[tuple[str, Layer, Any]]:
    """(name, layer, the module or None) of the chosen layer, or of both."""
    if chosen != "qwen3":
        sizes = DeepseekSizes().small() if small else replace(DeepseekSizes(), n_routed_experts=16)
        sizes = replace(sizes, n_routed_experts=experts or sizes.n_routed_experts)
        yield "DeepSeek V3.2", *eager.deepseek(Deepseek, sizes)
    if chosen != "deepseek":
        qwen3_sizes = Qwen3Sizes().small() if small else Qwen3Sizes()
        qwen3_sizes = replace(qwen3_sizes, num_experts=experts or qwen3_sizes.num_experts)
        yield "Qwen3-MoE", *eager.qwen3(Qwen3, qwen3_sizes)


def contenders(
    layer: Layer, module: Any, keys: int, sequences: int, most: int
) -> list[Callable[..., Tensor]]:
    """Functions of (x, (cos, sin)): ours, and the module or the layer in plain torch. Each has its
    own cache with the same `keys` tokens of each sequence."""
    mine = Pages(sequences, most, layer.rows, BF16)
    mine.fill(keys)
    if module:
        cache = eager.cache_of(module, layer, mine)
        other = partial(eager.decode, module, cache)
    else:
        other = partial(layer.decode, Plain, mine.clone())
    return [partial(layer.decode, Ours, mine), other]


def decode(name: str, layer: Layer, module: Any, steps: int, sequences: int, keys: int) -> None:
    """Prints the tokens a second of both, and how far their outputs are from each other."""
    functions = contenders(layer, module, keys, sequences, keys + steps + 1)
    seconds: list[list[float]] = [[], []]
    cosines: list[float] = []
    for step in range(steps + 1):  # the first one compiles
        x = torch.randn(sequences, layer.sizes.hidden_size).to(BF16)
        turn, outs = angles(layer.sizes, layer.width, keys + step), []
        for taken, function in zip(seconds, functions, strict=True):
            start = time.perf_counter()
            outs.append(function(x, turn).double())
            taken.append(time.perf_counter() - start)
        cosines.append(torch.nn.functional.cosine_similarity(outs[0], outs[1]).min().item())
    ours, other = (sequences / statistics.median(taken[1:]) for taken in seconds)
    peer = "the eager module" if module else "plain torch"
    print(
        f"{name}, {sequences} sequences of {keys} to {keys + steps} keys: {ours:.1f} tokens/s,"
        f" {peer} {other:.1f}, {ours / other:.2f}x; least cosine of outputs {min(cosines):.5f}"
    )


def number_from(least: int) -> Callable[[str], int]:
    """The type of an argument that counts something."""

    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: pass a number from {least} on")
        return value

    return number


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m examples.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--layer", choices=["deepseek", "qwen3"], help="only this one")
    parser.add_argument("--small", action="store_true", help="small layers, which take a second")
    parser.add_argument("--steps", type=number_from(1), default=64)
    parser.add_argument("--sequences", type=number_from(1), default=1)
    parser.add_argument(
        "--keys", type=number_from(0), default=2048, help="of a sequence before the first step"
    )
    parser.add_argument("--experts", type=number_from(1), help="how many experts a layer has")
    given = parser.parse_args()
    torch.manual_seed(0)
    with torch.inference_mode():
        for name, layer, module in layers(given.layer, given.small, given.experts):
            decode(name, layer, module, given.steps, given.sequences, given.keys)


if __name__ == "__main__":
    main()
