# SPDX-License-Identifier: Apache-2.0
"""What a function or an operator writes goes into a tensor as it lies, with gaps: the same bits as
into a dense one, nothing in the gaps, and no copy of the whole."""

import re

import numpy as np
import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

FILL = 3
PAGES, PAGE, WIDTH = 5, 4, 8


def between(x):
    """Pages that alternate with others."""
    return torch.full((x.shape[0], 2, *x.shape[1:]), FILL, dtype=x.dtype)[:, 0]


def padded(x):
    return torch.full((*x.shape[:-1], x.shape[-1] + 3), FILL, dtype=x.dtype)[..., : x.shape[-1]]


def turned(x):
    axes = range(x.ndim)[::-1]
    return torch.full(x.shape[::-1], FILL, dtype=x.dtype).permute(*axes)


def every_second(x):
    return torch.full((x.shape[0] * 2, *x.shape[1:]), FILL, dtype=x.dtype)[1::2]


LAYOUTS = {f.__name__: f for f in (between, padded, turned, every_second)}


def bytes_of(x):
    return x.untyped_storage().tolist()


def laid(layout, x):
    """x so laid out, and the bytes of its memory when `other` lies there in its place."""
    made = LAYOUTS[layout](x)
    made.copy_(x)

    def with_elements(other):
        wanted = LAYOUTS[layout](x)
        wanted.copy_(other)
        return bytes_of(wanted)

    return made, with_elements


@pto.jit
def put_rows(cache, slots, rows):
    cache[:] = pto.scatter_update(cache, slots, rows)


@pto.jit
def put_part(cache, rows):
    cache[1:3, 2] = rows


@pto.jit
def put_at(cache, slots, rows):
    for t in pto.loop(slots.shape[0]):
        cache[slots[t] // cache.shape[1], slots[t] % cache.shape[1]] = rows[t]


@pto.jit
def turn_all(cache):
    cache[1:] = cache[:-1] * 2


def calls():
    rows, slots = torch.randn(4, WIDTH), torch.tensor([6, 0, 19, 6])
    return {
        "put_rows": (put_rows, slots, rows),
        "skips": (put_rows, torch.tensor([-1, 3, -1, 7]), rows),
        "put_part": (put_part, rows[:2]),
        "put_at": (put_at, slots, rows),
        "turn_all": (turn_all,),
    }


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["torch", "numpy"])
def test_a_function_writes_where_its_argument_lies(way, layout, name):
    torch.manual_seed(0)
    function, *rest = calls()[name]
    dense = torch.randn(PAGES, PAGE, WIDTH)
    cache, wanted = laid(layout, dense)
    function(dense, *rest)
    function(*(x.numpy() if way == "numpy" else x for x in (cache, *rest)))
    assert bytes_of(cache) == wanted(dense)


@pytest.mark.parametrize("name", calls())
def test_steps_backwards(name):
    torch.manual_seed(0)
    function, *rest = calls()[name]
    dense = torch.randn(PAGES, PAGE, WIDTH)
    memory = np.full((PAGES, 2, PAGE, WIDTH), FILL, np.float32)
    cache = memory[::-1, 0, ::-1]
    cache[:] = dense
    function(dense, *rest)
    function(cache, *(x.numpy() for x in rest))
    assert np.array_equal(cache, dense) and (memory[:, 1] == FILL).all()


def test_a_position_that_does_not_exist_is_an_error_before_a_write():
    cache, wanted = laid("between", torch.zeros(PAGES, PAGE, WIDTH))
    with pytest.raises(IndexError, match="position 20 along axis 0, which has the size 20"):
        put_rows(cache, torch.tensor([2, PAGES * PAGE]), torch.ones(2, WIDTH))
    assert bytes_of(cache) == wanted(torch.zeros(PAGES, PAGE, WIDTH))


def test_rows_that_lie_in_the_cache_are_read_first():
    torch.manual_seed(0)
    cache, wanted = laid("between", torch.randn(PAGES, PAGE, WIDTH))
    rows, slots = cache[0], torch.tensor([1, 2, 3, 0])
    want = cache.clone()
    want[0, [1, 2, 3, 0]] = rows.clone()
    put_rows(cache, slots, rows)
    assert bytes_of(cache) == wanted(want)


def most_memory():
    """MiB that this process has held at once since it last forgot."""
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) >> 10


def test_only_the_rows_take_memory():
    """A buffer of 1 GiB whose pages the system gives when they are first written."""
    both = torch.from_numpy(np.zeros((2**11, 2, 2**10, 64), np.float32))
    keys, slots = both[:, 0], torch.tensor([5, 2**21 - 1])
    put_rows(both[:2, 0], slots[:1], torch.ones(1, 64))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = most_memory()
    put_rows(keys, slots, torch.ones(2, 64))
    assert most_memory() - before < 64
    assert keys[0, 5].sum() == 64 and keys[-1, -1].sum() == 64 and not both[:4, 1].any()


CASES = {
    "qwen3_attention": lambda: formulas.qwen3_arguments([9, 7], 3, 4, 2, 64, 16, torch.float32),
    "mla_prolog": lambda: formulas.mla_arguments(3),
    "mla_prolog_float": lambda: formulas.mla_arguments(3, quantised=False),
    "indexer_prolog": lambda: formulas.indexer_arguments(3),
    "mla_decode_step": lambda: formulas.decode_arguments([70, 30], 1),
    "gated_delta_rule": lambda: formulas.delta_arguments([5, 30], 2, 4),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, "between") for name in CASES] + [("qwen3_attention", layout) for layout in LAYOUTS][1:],
)
def test_an_operator_writes_where_its_caches_lie(name, layout):
    torch.manual_seed(0)
    given = CASES[name]()
    operator = getattr(torch.ops.pto, name)
    options = {"scale": 0.1, "k": 64} if name == "mla_decode_step" else {}
    places = [i for i, a in enumerate(operator.default._schema.arguments) if a.is_write]
    assert places
    dense = [x.clone() for x in given]
    want = operator(*dense, **options)
    wanted = {}
    for i in places:
        given[i], wanted[i] = laid(layout, given[i])
    got = operator(*given, **options)
    for x, y in zip(
        *((r if isinstance(r, tuple | list) else (r,)) for r in (got, want)), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5, equal_nan=True)
    for i in places:
        assert bytes_of(given[i]) == wanted[i](dense[i]), i


def test_models_write_numpy_caches_as_they_lie():
    torch.manual_seed(0)
    given = [x.numpy() for x in CASES["qwen3_attention"]()]
    dense = [x.copy() for x in given]
    models.qwen3_attention(*dense)
    both = np.full((given[7].shape[0], 2, *given[7].shape[1:]), np.float32(FILL))
    for k in (0, 1):
        both[:, k] = given[7 + k]
        given[7 + k] = both[:, k]
    models.qwen3_attention(*given)
    assert np.array_equal(both[:, 0], dense[7]) and np.array_equal(both[:, 1], dense[8])


@pytest.mark.parametrize("made_for", ["dense", *LAYOUTS])
def test_a_package_writes_where_its_argument_lies(made_for, tmp_path):
    torch.manual_seed(0)
    dense = torch.randn(PAGES, PAGE, WIDTH)
    rows, slots = torch.randn(4, WIDTH), torch.tensor([6, 0, 19, 6])
    example = dense.clone() if made_for == "dense" else laid(made_for, dense)[0]
    put_rows.package(tmp_path / "put.pto", example, slots, rows)
    given = {layout: laid(layout, dense) for layout in LAYOUTS}
    put_rows(dense, slots, rows)
    for cache, wanted in given.values():
        pto.load(tmp_path / "put.pto")(cache, slots, rows)
        assert bytes_of(cache) == wanted(dense)
