# SPDX-License-Identifier: Apache-2.0
"""Hints and options: which nodes carry them, and that they change nothing else."""

import contextlib
import re
import warnings

import numpy as np
import pytest

import pto

X = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


@pto.jit
def hinted(x, out):
    pto.set_vec_tile_shapes(1, 3, 2)
    y = x * 2
    assert pto.get_vec_tile_shapes() == [1, 3, 2] and pto.get_cube_tile_shapes() == []
    with pto.leaf("rows"):
        pto.set_semantic_label("exponents")
        z = y.exp()
    pto.set_cube_tile_shapes([16, 32], 8, [64])
    assert pto.get_cube_tile_shapes() == [[16, 32], [8], [64]]
    p = x @ pto.transpose(z, 1, 2)
    for i in pto.loop(x.shape[0]):
        with pto.options(merge=4, order="longest", huge_pages=True):
            if p[i, 0, 0] > 5:
                pto.set_vec_tile_shapes(3, 2)
                out[i] = z[i] + 1
            else:
                pto.set_vec_tile_shapes(2)
                out[i] = pto.sqrt(z[i, 0])
    pto.cut()
    out[:] = out - p[:, :, :2]


@pto.jit
def plain(x, out):
    z = (x * 2).exp()
    p = x @ pto.transpose(z, 1, 2)
    for i in pto.loop(x.shape[0]):
        if p[i, 0, 0] > 5:
            out[i] = z[i] + 1
        else:
            out[i] = pto.sqrt(z[i, 0])
    out[:] = out - p[:, :, :2]


def hints_of(graph, op):
    """The hints of the nodes of an operation, as the graph prints them."""
    lines = [line for line in str(graph).splitlines() if f" = {op}(" in line]
    return [re.findall(r"!(\w+)=(\[[\d, ]*\]|\"[^\"]*\")", line) for line in lines]


def test_nodes_carry_the_hints_in_force_at_their_line():
    graph = hinted.trace(X, X.copy())
    row, label = ("vec_tile", "[1, 3, 2]"), ("label", '"exponents"')
    assert hints_of(graph, "mul") == [[row]]
    assert hints_of(graph, "exp") == [[label, ("leaf", '"rows"'), ("leaf_call", "[1]"), row]]
    cube = [("cube_k", "[8]"), ("cube_m", "[16, 32]"), ("cube_n", "[64]")]
    assert hints_of(graph, "matmul") == [[*cube, label, row]]
    options = [("huge_pages", "[1]"), label, ("merge", "[4]"), ("order", '"longest"')]
    assert hints_of(graph, "add") == [[*cube, *options, ("vec_tile", "[3, 2]")]]
    assert hints_of(graph, "sqrt") == [[*cube, *options, ("vec_tile", "[2]")]]
    assert hints_of(graph, "sub") == [[*cube, ("cut", "[2]"), label, row]]


@pytest.mark.parametrize("block", [lambda: pto.options(merge=1), lambda: pto.leaf("x")])
def test_hints_of_a_block_end_with_an_exception_too(block):
    @pto.jit
    def caught(x):
        with contextlib.suppress(KeyError), block():
            raise KeyError
        return x.exp()

    assert hints_of(caught.trace(X), "exp") == [[]]


def test_hints_are_no_part_of_a_graph_and_change_no_result():
    one, other = hinted.trace(X, X.copy()), plain.trace(X, X.copy())
    text = re.sub(r' @ "[^"]*":\d+', "", str(one)).replace("hinted", "plain")
    assert "!vec_tile" in text and "!" not in str(other)
    assert pto._core.Graph.parse(text) == other
    out, wanted = np.zeros_like(X), np.zeros_like(X)
    hinted(X, out)
    plain(X, wanted)
    np.testing.assert_array_equal(out, wanted)


def test_an_unknown_option_is_warned_of_once():
    @pto.jit
    def optional(x):
        for _ in range(3):
            with pto.options(speed="high", merge=2):
                x = x * 2
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optional.trace(X)
        optional.trace(X)
    (one,) = [w for w in caught if "no option speed" in str(w.message)]
    assert one.filename.endswith("test_hints.py") and "merge, order" in str(one.message)


def wrong_rank(x, out):
    y = x * 2
    pto.set_vec_tile_shapes(1, 4)
    y = y + 1
    pto.set_vec_tile_shapes(1, 4, 8)
    out[:] = y - 1


def wrong_rank_in_a_loop(x, out):
    pto.set_vec_tile_shapes(1, 4, 8)
    for i in pto.loop(4):
        out[i] = x[i] + 1


def not_positive(x, out):
    pto.set_vec_tile_shapes(1, 0, 8)
    out[:] = x


def not_whole(x, out):
    pto.set_vec_tile_shapes(1, 2.5, 8)
    out[:] = x


def not_known(x, out):
    pto.set_cube_tile_shapes([16], [x.shape[0]], [16])
    out[:] = x


def none_at_all(x, out):
    pto.set_cube_tile_shapes([16], [], [16])
    out[:] = x


def no_label(x, out):
    pto.set_semantic_label(3)
    out[:] = x


def no_number(x, out):
    with pto.options(merge="much"):
        out[:] = x


_MISTAKES = {
    wrong_rank: (2, "set_vec_tile_shapes(1, 4): 2 sizes, but add behind it computes f32[", "3"),
    wrong_rank_in_a_loop: (1, "3 sizes, but add behind it computes f32[s1, s2]", "give 2 sizes"),
    not_positive: (1, "set_vec_tile_shapes: a size of a tile is the int 0", "positive"),
    not_whole: (1, "a size of a tile is the float 2.5", "positive integers"),
    not_known: (1, "set_cube_tile_shapes: a size of a tile is s0", "positive integers"),
    none_at_all: (1, "set_cube_tile_shapes: no sizes", "positive"),
    no_label: (1, "set_semantic_label: the name is the int 3", "a text"),
    no_number: (1, "options: merge is the str 'much'", "an integer"),
}


@pytest.mark.parametrize("function", _MISTAKES, ids=lambda f: f.__name__)
def test_a_hint_that_cannot_hold_is_an_error_at_its_own_line(function):
    line, what, fix = _MISTAKES[function]
    with pytest.raises(pto.Error) as caught:
        pto.jit(function).trace(X, X.copy())
    error = caught.value
    assert what in str(error) and fix in error.fix and error.why, str(error)
    place = function.__code__.co_firstlineno + line
    assert error.location.endswith(f"test_hints.py:{place}"), error.location


def test_hints_need_a_traced_function():
    for hint in (lambda: pto.set_vec_tile_shapes(8), lambda: pto.leaf("x"), pto.cut):
        with pytest.raises(pto.Error, match="no function is being traced"):
            hint()
