# SPDX-License-Identifier: Apache-2.0
"""Calls of required names that no sample of PyTorch's own reaches, three each.

    for name, args, kwargs in by_hand(seed=7, share=1): ...

A row has what three calls differ in; `f` makes normal numbers of a shape.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

Call = tuple[tuple, dict[str, Any]]


def f(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def small(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 9, shape, dtype=torch.int8)


def classes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 3, shape)


def each(values: Any, call: Callable[[Any], tuple], **kwargs: Any) -> list[Call]:
    """A call for each value."""
    return [(call(value), kwargs) for value in values]


def convolutions() -> dict[str, list[Call]]:
    """Their forms of two and three axes, with 1, 2 and 3 images; steps and borders follow."""
    n, ones, zeros = (1, 2, 3), [1, 1], [0, 0]
    flat = lambda i: (f(i, 2, 5, 5), f(4, 2, 3, 3), [3, 3])  # noqa: E731
    deep = lambda i: (f(i, 2, 4, 4, 4), f(4, 2, 2, 2, 2), [2, 2, 2])  # noqa: E731
    back = lambda i: (  # noqa: E731
        f(i, 4, 3, 3), f(i, 2, 5, 5), f(4, 2, 3, 3), [3, 3], ones, zeros, [True, True, i > 1],
    )  # fmt: skip
    return {
        "thnn_conv2d": each(n, flat),
        "_slow_conv2d_forward": each(n, lambda i: (*flat(i), f(4), ones, zeros)),
        "_slow_conv2d_backward": each(n, back),
        "slow_conv3d": each(n, deep),
        "slow_conv3d_forward": each(n, lambda i: (*deep(i), f(4), [1] * 3, [0] * 3)),
        "slow_conv_transpose2d": each(n, lambda i: (f(i, 4, 3, 3), f(4, 2, 3, 3), [3, 3])),
        "slow_conv_transpose3d": each(n, lambda i: (f(i, 4, 2, 2, 2), f(4, 2, 2, 2, 2), [2] * 3)),
    }


def products() -> dict[str, list[Call]]:
    n = (1, 2, 5)

    def scaled(i: int) -> tuple:
        eight = torch.float8_e4m3fn
        scale = torch.tensor(0.5)
        return f(16 * i, 32).to(eight), f(16, 32).to(eight).t(), scale, scale

    def sparse(i: int) -> tuple:
        return torch.eye(3).to_sparse() * i, torch.eye(3).to_sparse(), f(3, 3)

    return {
        "_int_mm": each((17, 18, 32), lambda i: (small(i, 8), small(8, 16))),
        "_scaled_mm": each(n, scaled, out_dtype=torch.bfloat16),
        "_addmm_activation": each(n, lambda i: (f(3), f(i, 4), f(4, 3))),
        "chain_matmul": each(n, lambda i: ([f(i, 3), f(3, 4), f(4, 2)],)),
        "tensordot": each(n, lambda i: (f(i, 3, 4), f(4, 3, 2), [1, 2], [1, 0])),
        "sspaddmm": each(n, sparse),
        "_compute_linear_combination": each(n, lambda i: (f(3, 2), f(i, 3))),
        "frobenius_norm": each(([0], [1], [0, 1]), lambda dim: (f(3, 4), dim)),
        "nuclear_norm": each((True, False, True), lambda keep: (f(3, 4), keep)),
    }


def losses() -> dict[str, list[Call]]:
    n = (0, 1, 2)  # nothing, mean, sum
    return {
        "nll_loss": each(n, lambda i: (f(4, 3), classes(4), None, i)),
        "nll_loss2d": each(n, lambda i: (f(2, 3, 4, 4), classes(2, 4, 4), None, i)),
        "special_gammainc": each((1, 2, 5), lambda i: (f(i).abs() + 1, f(i).abs())),
        "special_gammaincc": each((1, 2, 5), lambda i: (f(i).abs() + 1, f(i).abs())),
        "_add_relu": each((1, 2, 5), lambda i: (f(i, 3), f(i, 3))),
    }


def sizes_and_places() -> dict[str, list[Call]]:
    n = (1, 2, 5)
    rows = torch.tensor([0, 0, 1, 3])
    return {
        "_convert_indices_from_coo_to_csr": each((4, 5, 9), lambda i: (rows, i)),
        "_convert_indices_from_csr_to_coo": [
            (
                (torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1])),
                {"transpose": turn, "out_int32": no},
            )
            for turn, no in ((False, False), (True, False), (False, True))
        ],
        "_upsample_bicubic2d_aa": each((3, 5, 8), lambda i: (f(1, 2, 4, 4), [i, i], False)),
        "_upsample_bicubic2d_aa_backward": each(
            (3, 5, 8), lambda i: (f(1, 2, i, i), [i, i], [1, 2, 4, 4], False)
        ),
        "adaptive_avg_pool3d_backward": each(  # it has an overload with an output alone
            n, lambda i: (f(1, 2, i, i, i), f(1, 2, 5, 5, 5)), grad_input=torch.zeros(1, 2, 5, 5, 5)
        ),
        "split_copy": each(n, lambda i: (f(5, 3), i)),
        "set_": each(n, lambda i: (f(2), f(i, 3))),
        "fft_fftfreq": each((1, 4, 5), lambda i: (i, 0.5)),
        "fft_rfftfreq": each((1, 4, 5), lambda i: (i, 0.5)),
        "range": each((1, 4, 5), lambda i: (0, i)),
        "randperm": each((1, 4, 5), lambda i: (i,)),
        "random_": each((1, 4, 5), lambda i: (f(i, 3), 0, 9)),
    }


def by_hand(seed: int, share: int) -> Iterator[tuple[str, tuple, dict[str, Any]]]:
    """The calls of one of `share` names, chosen by the seed."""
    every = {**convolutions(), **products(), **losses(), **sizes_and_places()}
    names = sorted(every)
    random.Random(seed).shuffle(names)
    for name in names[: -(-len(names) // share)]:
        for args, kwargs in every[name]:
            yield name, args, kwargs
