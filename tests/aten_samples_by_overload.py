# SPDX-License-Identifier: Apache-2.0
"""Calls of overloads of required names that neither PyTorch's samples nor a rule reach.

    for full_name, args, kwargs in by_overload(seed=7, share=1): ...

They have the element types that the kernels take, and empty tensors. An overload whose only other
argument is an output follows from the functional one by the rule of twins, and has no calls here.
"""

import random
from collections.abc import Iterator
from typing import Any

import torch
from aten_samples_by_hand import Call

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, i32, i64 = torch.int8, torch.int32, torch.int64
c64 = torch.complex64
FLOATS = (f32, f64, bf16, f16)
NUMBERS = (f32, f64, bf16, i64, i32, torch.uint8)
WIDE = (f32, f64)


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def drawn(kind: torch.dtype, *shape: int) -> torch.Tensor:
    """Normal numbers of a type, integers of -9 to 9, or bools."""
    if kind.is_floating_point or kind.is_complex:
        return torch.randn(shape, dtype=f64 if kind is f64 else f32).to(kind)
    if kind is torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(0 if kind is torch.uint8 else -9, 9, shape, dtype=kind)


def into(kinds: tuple, sizes: list[int], *args: Any, **kwargs: Any) -> list[Call]:
    """A call for each element type of an output of these sizes."""
    return [call(*args, **kwargs, out=torch.zeros(sizes, dtype=kind)) for kind in kinds]


def of_kinds(kinds: tuple, *shapes: list[int]) -> Iterator[torch.Tensor]:
    """A tensor of the first shape for each type, and of the other shapes for the first type."""
    yield from (drawn(kind, *shapes[0]) for kind in kinds)
    yield from (drawn(kinds[0], *shape) for shape in shapes[1:])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def factories() -> dict[str, list[Call]]:
    numbers = (*NUMBERS, f16)
    found = {
        "arange.out": [*into(numbers, [100], 100), *into((f32,), [0], 0)],
        "arange.start_out": [*into(numbers, [33], 2, 101, 3), *into((i64,), [0], 5, 5)],
        "empty.out": [  # ones, since it writes nothing and others call it with outputs of ones
            call(sizes, out=torch.ones(sizes, dtype=kind))
            for kind, sizes in (*((kind, [3, 50]) for kind in numbers), (f32, [0, 4]))
        ],
        "eye.out": [*into(numbers, [32, 32], 32), *into((f32,), [0, 0], 0)],
        "eye.m_out": [*into(numbers, [16, 40], 16, 40), *into((f32,), [0, 3], 0, 3)],
        "fft_fftfreq.out": [*into(WIDE, [64], 64, 0.5), *into(WIDE, [33], 33)],
        "fft_rfftfreq.out": [*into(WIDE, [33], 64, 0.5), *into(WIDE, [17], 33)],
        "full.out": [*into(numbers, [8, 33], [8, 33], 3), *into((f32,), [0], [0], 2.5)],
        "ones.out": [*into((*numbers, c64), [8, 33], [8, 33]), *into((f32,), [2, 0], [2, 0])],
        "zeros.out": [*into((*numbers, c64), [8, 33], [8, 33]), *into((f32,), [2, 0], [2, 0])],
        "range.out": [*into((f32, f64, i64), [25], 1, 49, 2), *into((f32,), [1], 0, 0)],
        "range.out_": [*into((f32, f64, i64), [50], 0, 49), *into((f32,), [1], 0, 0)],
    }
    start, end = torch.tensor(-2.0), torch.tensor(3.0)
    for name, more in (("linspace", ()), ("logspace", (2.0,))):
        for overload, ends in (
            ("out", (-2, 3.0)), ("Tensor_Tensor_out", (start, end)),
            ("Tensor_Scalar_out", (start, 3.0)), ("Scalar_Tensor_out", (-2, end)),
        ):  # fmt: skip
            calls = [*into(FLOATS, [101], *ends, 101, *more), *into((f32,), [0], *ends, 0, *more)]
            found[f"{name}.{overload}"] = calls
    return found


def random_numbers() -> dict[str, list[Call]]:
    """Factories of random numbers, and calls that draw into or from a tensor."""
    sizes, none = [8, 33], [0, 4]
    ints, more = (i64, i32, f32), {"generator": seeded()}
    chances = [t.abs().clamp(max=1) for t in of_kinds(FLOATS, sizes, none)]
    found = {}
    for name in ("rand", "randn"):
        found[f"{name}.out"] = [*into(FLOATS, sizes, sizes), *into((f32,), none, none)]
        found[f"{name}.generator_out"] = [
            *into(FLOATS, sizes, sizes, **more), *into((f32,), none, none, **more),
        ]  # fmt: skip
    for overload, low, given in (
        ("out", (), {}), ("generator_out", (), more),
        ("low_out", (-5,), {}), ("low_generator_out", (-5,), more),
    ):  # fmt: skip
        found[f"randint.{overload}"] = [
            *into(ints, sizes, *low, 90, sizes, **given),
            *into((i64,), none, *low, 9, none, **given),
        ]
    return found | {
        "randperm.out": [*into((i64, i32, f64), [100], 100), *into((i64,), [0], 0)],
        "randperm.generator_out": [*into(ints, [100], 100, **more), *into((i64,), [0], 0, **more)],
        "normal.float_float_out": [
            *into(FLOATS, sizes, 1.5, 2.0, sizes), *into((f32,), none, 0.0, 1.0, none),
        ],
        "normal.out": [
            call(drawn(kind, *shape), 0.5, 2.0, out=torch.zeros(shape, dtype=kind))
            for kind, shape in (*((kind, sizes) for kind in FLOATS), (f32, none))
        ],
        "normal.float_Tensor": [call(0.5, t.abs() + 0.1) for t in of_kinds(WIDE, sizes, none)],
        "bernoulli.p": [call(t, 0.3) for t in of_kinds((*FLOATS, i64), sizes, none)],
        "bernoulli.Tensor": [call(t, t) for t in chances],
        "bernoulli_.Tensor": [call(drawn(i32, *t.shape), t) for t in chances],
        "random_": [call(t) for t in of_kinds((*NUMBERS, torch.bool), sizes, none)],
        "random_.to": [call(t, 100) for t in of_kinds((f32, f64, i64, i32, i8), sizes, none)],
        "rrelu_with_noise.out": [
            call(t, torch.zeros_like(t), 0.1, 0.3, training, out=torch.zeros_like(t))
            for training in (True, False)
            for t in of_kinds(WIDE, sizes, none)
        ],
    }  # fmt: skip


def batch_norms() -> dict[str, list[Call]]:
    def about(kind: torch.dtype) -> tuple:
        wide = f32 if kind is bf16 else kind  # what it notes of bf16 is f32
        return tuple(drawn(wide, 16).abs() + 0.5 for _ in range(2))

    def outputs(kind: torch.dtype, shape: list[int], *names: str) -> dict[str, torch.Tensor]:
        return {"out": torch.zeros(shape, dtype=kind)} | {
            name: torch.zeros(16, dtype=f32 if kind is bf16 else kind) for name in names
        }

    shapes = ([4, 16, 14, 14], [32, 16])
    every = [(kind, shape) for kind in (f32, f64, bf16) for shape in shapes]
    saved = ("save_mean", "save_invstd")
    return {
        "_batch_norm_with_update.out": [
            call(drawn(k, *s), *about(k), *about(k), 0.1, 1e-5, **outputs(k, s, *saved),
                 reserve=torch.zeros(0, dtype=torch.uint8))
            for k, s in every
        ],
        "_native_batch_norm_legit.out": [
            call(drawn(k, *s), *about(k), *about(k), True, 0.1, 1e-5, **outputs(k, s, *saved))
            for k, s in every
        ],
        "_native_batch_norm_legit.no_stats": [
            call(drawn(k, *s), *about(k), True, 0.1, 1e-5) for k, s in every
        ],
    }  # fmt: skip


def convolutions() -> dict[str, list[Call]]:
    def gradients(kind: torch.dtype, n: int) -> Call:
        image, weight = drawn(kind, n, 8, 14, 14), drawn(kind, 16, 8, 3, 3)
        made = {"grad_input": image, "grad_weight": weight, "grad_bias": drawn(kind, 16)}
        places = {name: torch.zeros_like(one) for name, one in made.items()}
        back = drawn(kind, n, 16, 12, 12)
        return call(back, image, weight, [3, 3], [1, 1], [0, 0], **places)

    return {
        "_slow_conv2d_backward.grad_input": [
            gradients(f32, 2), gradients(f64, 3), gradients(bf16, 1), gradients(f32, 0),
        ]
    }  # fmt: skip


def upsamplings() -> dict[str, list[Call]]:
    """Twice the size, given as a size or as a factor; each aligns corners or has no such choice."""
    found = {}
    for name, rank, aligns in (
        ("_upsample_bicubic2d_aa", 2, True), ("upsample_bicubic2d", 2, True),
        ("upsample_bilinear2d", 2, True), ("upsample_linear1d", 1, True),
        ("upsample_trilinear3d", 3, True), ("upsample_nearest1d", 1, False),
        ("upsample_nearest2d", 2, False), ("upsample_nearest3d", 3, False),
        ("_upsample_nearest_exact1d", 1, False), ("_upsample_nearest_exact2d", 2, False),
        ("_upsample_nearest_exact3d", 3, False),
    ):  # fmt: skip
        align = (True,) if aligns else ()
        size = {1: 64, 2: 16, 3: 7}[rank]
        kinds = (f32, f64) if name.endswith("_aa") else (f32, f64, bf16)
        images = list(of_kinds(kinds, [2, 3] + [size] * rank, [0, 3] + [size] * rank))
        by_size = [call(t, [2 * size + 1] * rank, *align, None) for t in images]
        by_factor = [call(t, None, *align, [2.0] * rank) for t in images]
        found[f"{name}.vec"] = by_size + by_factor
    return found


def matrices() -> dict[str, list[Call]]:
    kinds, shape, several = (f32, f64, c64), [16, 16], [3, 12, 12]

    def every(*args: Any, kinds: tuple = kinds, none: bool = True, **kwargs: Any) -> list[Call]:
        shapes = (shape, several, [0, 8, 8]) if none else (shape, several)
        return [call(t, *args, **kwargs) for t in of_kinds(kinds, *shapes)]

    tolerance = torch.tensor(0.5, dtype=f64)
    return {
        "linalg_cond.p_str": [*every("fro"), *every("nuc")],
        "linalg_matrix_norm": [*every(1), *every(2), *every(-1, [0, 1], True, none=False)],
        "linalg_matrix_rank": every(0.5),
        "linalg_matrix_rank.tol_tensor": every(tolerance),
        "linalg_matrix_rank.atol_rtol_float": [*every(atol=0.5), *every(rtol=0.1)],
        "linalg_pinv": every(1e-3),
        "nuclear_norm.dim": [*every([0, 1], none=False), *every([-1, -2], True, none=False)],
        "norm.ScalarOpt_dim_dtype": [
            *(call(t, 2, [-1], True, dtype=f64) for t in of_kinds((f32, f64), shape, [0, 8])),
            *(call(t, None, [0], False, dtype=f32) for t in of_kinds((f32, bf16), shape, [4, 0])),
        ],
        "sspaddmm.out": [
            call(m, m, drawn(kind, 3, 3), out=m.clone())
            for kind in WIDE
            for m in (torch.eye(3, dtype=kind).to_sparse(),)
        ],
        "sparse_sampled_addmm.out": [
            call(m, drawn(kind, 3, 4), drawn(kind, 4, 3), out=m.clone())
            for kind in WIDE
            for m in (torch.eye(3, dtype=kind).to_sparse_csr(),)
        ],
    }


def elements() -> dict[str, list[Call]]:
    """Choices, limits and searches of elements."""
    shape, none = [33, 20], [0, 20]
    every = (*NUMBERS, f16, i8)
    quarters = lambda t: torch.tensor([0.0, 0.25, 0.9], dtype=t.dtype)  # noqa: E731
    holds = lambda t: drawn(torch.bool, *t.shape)  # noqa: E731
    parts = {}
    for name in ("quantile", "nanquantile"):
        parts[name] = [
            *(call(t, quarters(t), 1, True) for t in of_kinds(WIDE, shape)),
            *(
                call(t, quarters(t)[1], None, interpolation="nearest")
                for t in of_kinds(WIDE, shape)
            ),
        ]
    return parts | {
        "clip": [
            *(call(t, 1, 5) for t in of_kinds(every, shape, none)),
            call(drawn(f32, *shape), None, 0.5),
        ],
        "fill_.Tensor": [
            call(t, torch.tensor(3, dtype=t.dtype)) for t in of_kinds((*every, c64), shape, none)
        ],
        "float_power_.Scalar": [call(t, 3) for t in of_kinds((f64,), shape, none)],
        "float_power_.Tensor": [call(t, drawn(i64, 20)) for t in of_kinds((f64,), shape, none)],
        "isin.Tensor_Scalar": [
            call(t, 2, invert=invert)
            for invert in (False, True)
            for t in of_kinds((f32, i64, i32), shape, none)
        ],
        "isin.Scalar_Tensor": [call(2, t) for t in of_kinds((f32, f64, i64, i32), [50], [0])],
        "where.self": [
            *(call(holds(t), t, t.flip(0)) for t in of_kinds((*every, c64), shape, none)),
            call(drawn(torch.bool, 33, 1), drawn(f32, 20), drawn(i64, *shape)),
        ],
        "where.ScalarOther": [call(holds(t), t, 2) for t in of_kinds(every, shape, none)],
        "where.ScalarSelf": [call(holds(t), 2, t) for t in of_kinds(every, shape, none)],
        "where.Scalar": [call(holds(t), *ends) for t in of_kinds((f32,), shape, none)
                         for ends in ((1.5, 2), (1, 2), (True, False))],
    }  # fmt: skip


def scattered() -> dict[str, list[Call]]:
    """Reductions into places, pieces of tensors, and tensors that take another's memory."""
    shape, reductions = [40, 16], ("add", "multiply")
    places = lambda t: torch.randint(0, 40, [min(25, len(t)), t.shape[1]])  # noqa: E731
    inputs = lambda: of_kinds((f32, f64, i64, bf16), shape, [0, 16])  # noqa: E731
    memory = torch.arange(24, dtype=f32)
    return {
        "scatter.reduce": [
            call(t, 0, places(t), t, reduce=kind) for kind in reductions for t in inputs()
        ],
        "scatter.value_reduce": [
            call(t, 0, places(t), 3, reduce=kind) for kind in reductions for t in inputs()
        ],
        "split_copy.Tensor_out": [
            call(t, 6, 1, out=[torch.zeros_like(p) for p in t.split(6, 1)]) for t in inputs()
        ],
        "split_with_sizes_copy.out": [
            call(t, [6, 0, 10], 1, out=[torch.zeros_like(p) for p in t.split([6, 0, 10], 1)])
            for t in inputs()
        ],
        "unbind_copy.int_out": [
            call(t, 1, out=[torch.zeros_like(p) for p in t.unbind(1)]) for t in inputs()
        ],
        "set_": [call(drawn(f32, 3, 4)), call(drawn(i64, 0))],
        "set_.source_Storage": [call(drawn(kind, 2), memory.untyped_storage()) for kind in WIDE],
        "set_.source_Storage_storage_offset": [
            call(drawn(f32, 2), memory.untyped_storage(), 2, [3, 4], [1, 5]),
            call(drawn(f32, 2), memory.untyped_storage(), 5, [0]),
        ],
        "set_.source_Tensor_storage_offset": [
            call(drawn(f32, 2), memory, 2, [3, 4], [1, 5]), call(drawn(f32, 2), memory, 5, [0]),
        ],
    }  # fmt: skip


def out_forms() -> dict[str, list[Call]]:
    """Forms with `out` of names that are required in place alone: those of the base names."""
    memory, both, other = drawn(f32, 30), drawn(f32, 2), drawn(f32, 12)
    return {
        "fill.Tensor_out": [
            call(t, torch.tensor(3, dtype=t.dtype), out=torch.zeros_like(t))
            for t in of_kinds(NUMBERS, [33, 20], [0])
        ],
        "random.out": [call(t, out=torch.zeros_like(t)) for t in of_kinds(WIDE, [33, 20], [0])],
        "random.to_out": [call(t, 9, out=torch.zeros_like(t)) for t in of_kinds(WIDE, [33], [0])],
        "random.from_out": [
            call(t, -4, 9, out=torch.zeros_like(t)) for t in of_kinds(WIDE, [33], [0])
        ],
        "set.out": [call(drawn(kind, 3, 4), out=torch.zeros(0, dtype=kind)) for kind in WIDE],
        "set.source_Tensor_out": [
            call(both, other, out=torch.zeros(12)), call(both, memory, out=torch.zeros(30)),
        ],
        "set.source_Storage_out": [
            call(both, one.untyped_storage(), out=torch.zeros(len(one))) for one in (memory, other)
        ],
        "set.source_Storage_storage_offset_out": [
            call(both, memory.untyped_storage(), 2, [3, 4], [4, 1], out=torch.zeros(3, 4)),
            call(both, memory.untyped_storage(), 5, [2], [1], out=torch.zeros(2)),
        ],
    }  # fmt: skip


def by_overload(seed: int, share: int) -> Iterator[tuple[str, tuple, dict[str, Any]]]:
    """The calls of one of `share` overloads, chosen by the seed."""
    every = {
        **factories(), **random_numbers(), **batch_norms(), **convolutions(), **upsamplings(),
        **matrices(), **elements(), **scattered(), **out_forms(),
    }  # fmt: skip
    names = sorted(every)
    random.Random(seed).shuffle(names)
    for name in names[: -(-len(names) // share)]:
        for args, kwargs in every[name]:
            yield name, args, kwargs
