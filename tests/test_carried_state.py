# SPDX-License-Identifier: Apache-2.0
"""State that a loop or branch of a program changes: carried, or refused; never silently stale."""

import collections
import dataclasses
import functools
import types

import numpy as np
import pytest

import pto

F32 = np.float32
X = np.array([1, 2, 3, 4], F32)
SUMS = [1, 3, 6, 10]
Pair = collections.namedtuple("Pair", "total count")


@pytest.fixture(params=[False, True], ids=["compiled", "interpreted"], autouse=True)
def in_both_ways(request, monkeypatch):
    monkeypatch.setattr(pto.config, "interpret", request.param)


def in_a_loop(x, out):
    c = (pto.zeros([]), (1, "a"))
    for i in pto.loop(x.shape[0]):
        c = (c[0] + x[i], (c[1][0] + 1, c[1][1]))
        out[i] = c[0]
    return c[0] * c[1][0]


def in_versions(x, out):
    c = Pair(pto.zeros([]), 1)
    for i in pto.loop(x.shape[0], unroll_list=[2]):
        c = c._replace(total=c.total + x[i], count=c.count + 1)
        out[i] = c.total
    return c.total * c.count


def in_a_while(x, out):
    c = (pto.zeros([]), 0)
    while c[1] < x.shape[0]:
        c = c[0] + x[c[1]], c[1] + 1
        out[c[1] - 1] = c[0]
    return c[0] * (c[1] + 1)


def in_branches(x, out):
    c = (pto.zeros([]), 1)
    for i in pto.loop(x.shape[0]):
        if x[i] > 2:
            twice = c[1] * 2
            c = (c[0] + x[i], twice - c[1] + 1)
        else:
            c = (x[i] + c[0], c[1] + 1)
        out[i] = c[0]
    return c[0] * c[1]


@pytest.mark.parametrize("function", [in_a_loop, in_versions, in_a_while, in_branches])
def test_a_tuple_is_carried_element_by_element(function):
    total = pto.jit(function)(X, out := np.zeros(4, F32))
    assert out.tolist() == SUMS and total == 50


def test_a_branch_chooses_each_element_of_a_tuple():
    @pto.jit
    def chosen(x):
        c = (x, 1.0)
        if x[0] > 2:
            c = (x * 2, 3.0)
        if x[1] > 2:
            first, second = c[0], 2.0
        else:
            first, second = c
        return first * second

    assert chosen(X).tolist() == X.tolist()
    assert chosen(X + 2).tolist() == ((X + 2) * 4).tolist()


def test_a_body_reads_what_holds_state_and_fills_what_it_makes():
    layer = types.SimpleNamespace(weights=[2.0, 3.0], names={"a": 1})

    @pto.jit
    def read(x, out, kind="a"):
        parts, scale = [x, x * 2], pto.relu
        for i in pto.loop(x.shape[0]):
            own, by_name = [], {}
            for one in parts:
                own.append(scale(one[i]))
                by_name[len(own)] = one
            if x[i] > 2:
                first = own[0] * layer.weights[1] * layer.names[kind]
                out[i] = first + own[1]
            else:
                made = [own[0]]
                made.append(own[1])
                out[i] = made[-1]

    read(X, out := np.zeros(4, F32))
    assert out.tolist() == [2, 4, 15, 20]


def test_a_name_of_another_kind_may_be_assigned_anew_where_its_former_value_is_not_read():
    @pto.jit
    def renamed(x, out):
        row, act, n = None, pto.relu, 0
        for i in pto.loop(x.shape[0]):
            row = [x[i], x[i] + 1]
            act = pto.abs
            mode = "double"
            if mode == "double":
                out[i] = act(row[0]) * 2
        while n < 2:
            act = pto.neg
            out[n] = act(out[n])
            n = n + 1
        state = {"n": 0}
        state["n"] = state["n"] + 1
        out[0] = out[0] * state["n"]

    renamed(X, out := np.zeros(4, F32))
    assert out.tolist() == [-2, -4, 6, 8]


@dataclasses.dataclass(slots=True)
class State:
    h: object


class Cached:
    @functools.cached_property
    def factor(self):
        return 2.0


def test_a_property_that_is_computed_once_is_no_state():
    cached = Cached()

    @pto.jit
    def scaled(x, out):
        for i in pto.loop(x.shape[0]):
            out[i] = x[i] * cached.factor

    scaled(X, out := np.zeros(4, F32))
    assert out.tolist() == (X * 2).tolist()


def list_element(x, out):
    c = [pto.zeros([]), 1]
    for i in pto.loop(x.shape[0]):
        c[0] = c[0] + x[i]
        out[i] = c[0]


def counter(x, out):
    c = [0]
    for i in pto.loop(x.shape[0]):
        out[i] = c[0]
        c[0] += 1


def counter_in_an_array(x, out):
    c = np.zeros(2, int)
    for i in pto.loop(x.shape[0]):
        out[i] = int(c[0])
        c[0] += 1


def dict_entry(x, out):
    c = {"h": pto.zeros([])}
    for i in pto.loop(x.shape[0]):
        c["h"] = c["h"] + x[i]
        out[i] = c["h"]


def slot(x, out):
    s = State(pto.zeros([]))
    for i in pto.loop(x.shape[0]):
        s.h = s.h + x[i]
        out[i] = s.h


def attribute(x, out):
    s = types.SimpleNamespace(h=[pto.zeros([])])
    for i in pto.loop(x.shape[0]):
        s.h.append(s.h[-1] + x[i])
        out[i] = s.h[-1]


def in_a_tuple(x, out):
    c = ([pto.zeros([])], 1)
    for i in pto.loop(x.shape[0]):
        c[0][0] = c[0][0] + x[i]
        out[i] = c[0][0]


def outer_variable(x, out):
    n = pto.zeros([])

    def add(one):
        nonlocal n
        n = n + one
        return n

    for i in pto.loop(x.shape[0]):
        out[i] = add(x[i])


def in_while(x, out):
    h, i = [pto.zeros([])], 0
    while i < x.shape[0]:
        h.append(h[-1] + x[i])
        out[i] = h[-1]
        i = i + 1


def in_one_path(x, out):
    st = {"n": 0}
    if x[0] > 5:
        st["n"] = 1
    out[:] = x * st["n"]


def in_cond(x, out):
    st = []
    out[:] = pto.cond(x[0] > 5, lambda: st.append(1) or x, lambda: x) * len(st)


def in_an_expression(x, out):
    st = []
    out[:] = (st.append(1) or x * 2 if x[0] > 5 else x) * len(st)


_CHANGES = {
    list_element: ("the body of a loop", "c[0]: <traced f32[]> becomes <traced f32[]>"),
    counter: ("the body of a loop", "c[0]: the int 0 becomes the int 1"),
    counter_in_an_array: ("the body of a loop", "c: a value of type"),
    dict_entry: ("the body of a loop", "c['h']: <traced f32[]> becomes <traced f32[]>"),
    slot: ("the body of a loop", "s.h: <traced f32[]> becomes <traced f32[]>"),
    attribute: ("the body of a loop", "s.h[1]: nothing becomes <traced f32[]>"),
    in_a_tuple: ("the body of a loop", "c[0][0]: <traced f32[]> becomes <traced f32[]>"),
    outer_variable: ("the body of a loop", "n: <traced f32[]> becomes <traced f32[]>"),
    in_while: ("the body of a loop", "h[1]: nothing becomes <traced f32[]>"),
    in_one_path: ("a path of a branch", "st['n']: the int 0 becomes the int 1"),
    in_cond: ("a path of a branch", "st[0]: nothing becomes the int 1"),
    in_an_expression: ("a path of a branch", "st[0]: nothing becomes the int 1"),
}


@pytest.mark.parametrize("function", _CHANGES, ids=lambda one: one.__name__)
def test_a_body_that_changes_what_no_loop_or_branch_carries_is_refused(function):
    kind, change = _CHANGES[function]
    with pytest.raises(TypeError) as caught:
        pto.jit(function)(X, np.zeros(4, F32))
    error = caught.value
    assert error.what.startswith(f"{kind} changes {change}"), error
    assert error.why and "variable" in error.fix and "test_carried_state.py:" in error.location


def a_list_by_name(x, out):
    c = [pto.zeros([]), 1]
    for i in pto.loop(x.shape[0]):
        c = [c[0] + x[i], c[1]]
        out[i] = c[0]


def a_dict_by_name(x, out):
    c, i = {"n": 0}, 0
    while i < x.shape[0]:
        c = {"n": c["n"] + 1}
        i = i + 1
        out[0] = c["n"]


def none_that_is_asked_for(x, out):
    best = None
    for i in pto.loop(x.shape[0]):
        if best is None:
            best = x[i]
        out[i] = best


def text(x, out):
    mode = "first"
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] if mode == "first" else -x[i]
        mode = "next"


def element_of_a_tuple(x, out):
    c = (pto.zeros([]), "first")
    for i in pto.loop(x.shape[0]):
        out[i] = x[i] if c[1] == "first" else -x[i]
        c = (c[0], "next")


@pytest.mark.parametrize("function, name, kind", [
    (a_list_by_name, "c", "builtins.list"), (a_dict_by_name, "c", "builtins.dict"),
    (none_that_is_asked_for, "best", "None"), (text, "mode", "the str 'first'"),
    (element_of_a_tuple, "c[1]", "the str 'first'"),
])  # fmt: skip
def test_a_body_that_reads_a_name_which_it_changes_and_no_loop_carries_is_refused(
    function, name, kind
):
    with pytest.raises(TypeError) as caught:
        pto.jit(function)(X, np.zeros(4, F32))
    error = caught.value
    assert error.what.startswith(f"{name} is read in the body of a loop that changes it"), error
    assert kind in error.why and "tuple" in error.fix and "test_carried_state.py:" in error.location


def test_a_tuple_that_changes_its_length_is_refused():
    @pto.jit
    def longer(x, out):
        c = (x[0], 1)
        for i in pto.loop(x.shape[0]):
            c = (x[i], 1, 2)
            out[i] = c[0]

    with pytest.raises(TypeError, match="variable c is a tuple of 2 in front .* a tuple of 3"):
        longer(X, np.zeros(4, F32))
