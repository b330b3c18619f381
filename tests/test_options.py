# SPDX-License-Identifier: Apache-2.0
"""Options of the language act: each changes the plan that it names, and no bit of the result."""

import ml_dtypes
import numpy as np
import pytest

import pto
from pto.language import recording, tile_hints
from pto.language.verify import verify_passes

RANDOM = np.random.default_rng(7)
X, Y = RANDOM.standard_normal((2, 37, 65), np.float32)
W, B = RANDOM.standard_normal((2, 65), np.float32)
Z = RANDOM.standard_normal((5, 12, 9), np.float32)


def softmax(x):
    e = pto.exp(x - pto.amax(x, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


def layer_norm(x, w, b):
    d = x - pto.mean(x, -1, keepdim=True)
    return d * pto.rsqrt(pto.mean(d * d, -1, keepdim=True) + 1e-5) * w + b


def product_gelu(x, y, b):
    h = pto.matmul(x, y, b_trans=True)
    h = h + pto.sum(b) * 0.25
    return 0.5 * h * (1 + pto.erf(h * 0.7071)), h - 1


def attend(x, y, out):
    for i in pto.loop(x.shape[0]):
        s = pto.matmul(x[i : i + 1], y, b_trans=True) * 0.125
        p = pto.exp(s - pto.amax(s, -1, keepdim=True))
        out[i : i + 1] = pto.matmul(p / pto.sum(p, -1, keepdim=True), y) + x[i : i + 1] * 0.5


def products(x, y, b):
    a = x * y
    c = x * b - y
    return a + b, a - c, pto.sum(a, -1), c * 2 + x * x, pto.sum(a * x, 0)


def low_precision(h, b):
    f = pto.cast(h, pto.f32)
    d = f * 1.7 + b
    e = pto.cast(d, pto.bf16)
    return e, pto.cast(pto.exp(pto.cast(e, pto.f32) * 0.5) - d, pto.f16), d > 1


def two_axes(z, v):
    m = pto.mean(z, [1, 2], keepdim=True)
    return (z - m) * pto.rsqrt(pto.mean(z * z, [1, 2], keepdim=True) + 1) + v


def long_rows(x):
    wide = pto.concat([pto.concat([x] * 20, 1)] * 14, 1)[:3]
    e = pto.exp(wide - pto.amax(wide, -1, keepdim=True))
    return e / pto.sum(e, -1, keepdim=True)


H = X.astype(ml_dtypes.bfloat16)
PROGRAMS = {
    softmax: (X,),
    layer_norm: (X, W, B),
    product_gelu: (X, Y, B),
    attend: (X, Y, None),
    products: (X, Y, B),
    low_precision: (H, B),
    two_axes: (Z, Z[0, 0]),
    long_rows: (X,),
}


def arguments(program):
    return [np.zeros_like(X) if one is None else one for one in PROGRAMS[program]]


def results(function, values):
    found = function(*values)
    found = found if isinstance(found, tuple) else (found,)
    return [np.asarray(one) for one in (*found, *values) if one is not None]


def assert_same_bits(found, wanted):
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8), f"result {place}")


_plain = {}


def plain(program):
    if program not in _plain:
        _plain[program] = results(pto.jit(program), arguments(program))
    return _plain[program]


def with_options(program, **options):
    """The compiled program with these options at each of its lines."""
    made = pto.jit(program)
    made.compiled.chosen = options
    return made


def kernels(function, *args):
    return [step.operations for step in function.explain(*args).steps_of("kernel")]


def choice(function, args, name):
    return next(one for one in function.explain(*args).choices if one.what == name)


ALL = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)


@ALL
@pytest.mark.parametrize("merge", [1, 2, 3])
def test_merge_changes_kernels_and_no_bit(program, merge, deep):
    if not deep and (merge + [*PROGRAMS].index(program)) % 3:
        pytest.skip("each program with one of them, by turns: ./dev test --deep")
    made, args = with_options(program, merge=merge), arguments(program)
    assert_same_bits(results(made, args), plain(program))
    if program is not two_axes:  # kernels decide the order of its sums
        assert len(kernels(made, *args)) > len(kernels(pto.jit(program), *args))
        assert choice(made, args, "merge").used.startswith("yes: at most")


def test_sums_over_several_axes_stay_in_their_kernels():
    made = with_options(two_axes, merge=1)
    assert kernels(made, Z, Z[0, 0]) == kernels(pto.jit(two_axes), Z, Z[0, 0])
    assert choice(made, (Z, Z[0, 0]), "merge").used.startswith("not: ")


@pto.jit(fuse=False)
def normalize(x):
    return softmax(x) - 0.5


@pto.jit
def parts(x, w, out):
    y = x * w + 1
    with pto.leaf("both"):
        z = layer_norm(y, w, y[0])
        e = softmax(z)
    pto.cut()
    e = e * 2
    pto.cut()
    e = normalize(e + z)
    for i in pto.loop(x.shape[0]):
        with pto.leaf("row"):
            r = softmax(e[i : i + 1]) * y[i]
        out[i : i + 1] = r * 2 - w
    return e + 1


@pto.jit
def whole(x, w, out):
    y = x * w + 1
    z = layer_norm(y, w, y[0])
    e = softmax(z) * 2
    e = softmax(e + z) - 0.5
    for i in pto.loop(x.shape[0]):
        r = softmax(e[i : i + 1]) * y[i]
        out[i : i + 1] = r * 2 - w
    return e + 1


def test_leaves_and_cuts_are_kernels_and_change_no_bit():
    args = X, W, np.zeros_like(X)
    wanted = results(whole, [X, W, np.zeros_like(X)])
    assert_same_bits(results(parts, [*args]), wanted)
    found = parts.explain(*args)
    assert len(found.steps_of("kernel")) > len(whole.explain(*args).steps_of("kernel"))
    used = {one.value: one.used for one in found.choices if one.what == "leaf"}
    assert used.keys() == {"both", "row", "normalize"}
    assert all(text.startswith("yes: parts_program_") for text in used.values()), used
    cuts = [one for one in found.choices if one.what == "cut"]
    assert len(cuts) == 2 and all(one.used == "yes" and one.by == "user" for one in cuts)
    assert verify_passes(parts, *args).is_equal


def test_a_leaf_holds_all_that_stands_in_it():
    @pto.jit
    def one(x):
        with pto.leaf("one"):
            y = softmax(x + 1)
        return y * x

    ends = [{"amax", "exp", "sum"} <= {*names} and "mul" not in names for names in kernels(one, X)]
    assert ends == [True, False]


def test_fuse_says_yes_or_no():
    with pytest.raises(pto.Error, match="fuse is the int 1"):
        pto.jit(fuse=1)


PAIRS = [{"workers": 1}, {"workers": 3}, {"tiles_per_task": 1}, {"tiles_per_task": 5},
         {"order": "longest", "merge": 1}, {"order": "submitted", "merge": 1},
         {"prefetch_bytes": 0}, {"prefetch_bytes": 4096}]  # fmt: skip
OPTIONS = [*PAIRS, {"workers": 2, "tiles_per_task": 3, "merge": 2}, {"order": "depth"}]


@ALL
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_change_no_bit(program, options, deep):
    """In the quick run with one of four neighbours in PAIRS, by turns."""
    if not deep and options in PAIRS and (PAIRS.index(options) + [*PROGRAMS].index(program)) % 4:
        pytest.skip("in ./dev test --deep")
    made = with_options(program, **options)
    assert_same_bits(results(made, arguments(program)), plain(program))


@ALL
def test_workers_and_tiles_are_in_the_plan_and_in_the_code(program):
    args = arguments(program)
    found = with_options(program, workers=2, tiles_per_task=3).explain(*args)
    loops = [one for one in found.steps_of("loop") if one.order == "side by side"]
    steps = [*found.steps_of("kernel"), *loops]
    assert {(one.workers, one.tiles_per_task) for one in steps} == {(2, 3)}
    assert found.cpp.count("Limits{2, 3}") == len(steps)
    assert "at most 2 tasks, tasks of 3 tiles" in found
    used = {one.what: one.used for one in found.choices}
    assert used["workers"].startswith("yes: ") and used["tiles_per_task"].startswith("yes: ")
    assert "Limits" not in pto.jit(program).explain(*args).cpp


def blocks_of(function, *args):
    """The number of blocks of each kernel of a recorded call."""
    recorded = recording.record(recording.recordable("test", function, args, {}),
                                *recording.after_a_call(function, args, {}))  # fmt: skip
    parts = [span for span in recorded.spans() if span.kind == recording.PART]
    return len(parts)


def test_tasks_are_as_many_as_asked_for():
    x = np.ones((64, 300), np.float32)
    assert blocks_of(with_options(softmax, tiles_per_task=8), x) == 8
    assert blocks_of(with_options(softmax, tiles_per_task=8, workers=3), x) == 3
    assert blocks_of(with_options(softmax, tiles_per_task=60), x) == 2
    with_loop = with_options(attend, tiles_per_task=10)
    assert blocks_of(with_loop, X, Y, np.zeros_like(X)) == 4


def test_options_of_one_loop_are_no_options_of_another():
    @pto.jit
    def two_loops(x, out):
        with pto.options(workers=1):
            for i in pto.loop(x.shape[0]):
                out[i] = x[i] * 2
        for i in pto.loop(x.shape[0]):
            out[i] = out[i] + 1

    loops = two_loops.explain(X, np.zeros_like(X)).steps_of("loop")
    assert [one.workers for one in loops] == [1, 0]


def chains(x, y):
    long = pto.matmul(pto.matmul(pto.exp(x), y, b_trans=True), y)
    return pto.matmul(x, y, b_trans=True) + 1, long * 2


@pytest.mark.parametrize("order", ["submitted", "depth", "longest"])
def test_order_is_that_of_the_steps_and_changes_no_bit(order):
    wanted = results(pto.jit(chains), [X, Y])
    made = with_options(chains, order=order)
    assert_same_bits(results(made, [X, Y]), wanted)
    steps = made.explain(X, Y).steps
    inner = [one for step in steps for one in step.all()]  # with those in loops over tiles
    kinds = "".join({"kernel": "k", "product": "p"}.get(step.kind, "") for step in inner)
    assert kinds == {"submitted": "kppkpk", "depth": "pkkppk", "longest": "kppkpk"}[order]


def test_prefetch_bytes_are_in_the_code():
    for bytes_, text in ((0, None), (4096, "+ j + 1024)"), (400, "+ j + 100)")):
        cpp = with_options(softmax, prefetch_bytes=bytes_).explain(X).cpp
        assert ("prefetch(" in cpp) == (text is not None) and (text or "") in cpp
    assert "prefetch(" in pto.jit(softmax).explain(X).cpp  # the next row
    assert "prefetch(" not in pto.jit(lambda x: x + 1).explain(X).cpp  # elements in order


def test_an_option_that_changes_nothing_is_named_once():
    @pto.jit
    def huge(x):
        with pto.options(huge_pages=True):
            x = x + 1
        with pto.options(huge_pages=False):
            return x * 2

    tile_hints._warned.discard("huge_pages")
    with pytest.warns(RuntimeWarning, match="huge_pages changes nothing") as caught:
        huge.trace(X)
    assert len(caught) == 1
    with pytest.raises(pto.Error, match="order is 'random'"):
        pto.jit(in_random_order).trace(X)


def in_random_order(x):
    with pto.options(order="random"):
        return x + 1


@pytest.mark.parametrize("shapes", [([8], [4], [8]), ([64, 16], [8], [200]), ([3], [1], [1])])
@pytest.mark.parametrize("tiles", [0, 1, 5])
def test_tiles_of_products_are_those_asked_for_and_change_no_bit(shapes, tiles):
    @pto.jit
    def asked(x, y, b):
        with pto.options(cube_tile_shapes=shapes, tiles_per_task=tiles):
            return product_gelu(x, y, b)

    args = arguments(product_gelu)
    assert_same_bits(results(asked, args), plain(product_gelu))
    for name in ("cube_m", "cube_n"):
        assert choice(asked, args, name).used.startswith("yes: 1 of 1 products"), name
    assert choice(asked, args, "cube_k").used.startswith("not: sums along k")


@pytest.mark.parametrize("tile", [1, 7, 64, 5000])
@pytest.mark.parametrize("tiles", [0, 2])
def test_tiles_of_elements_are_those_asked_for_and_change_no_bit(tile, tiles):
    @pto.jit
    def asked(x, y):
        pto.set_vec_tile_shapes(1, tile)
        with pto.options(tiles_per_task=tiles):
            return pto.exp(x) * y, pto.sum(x, -1)

    many = np.tile(X, (37, 11))
    found, wanted = asked(many, many[:1]), pto.jit(lambda x, y: pto.exp(x) * y)(many, many[:1])
    assert_same_bits([found[0]], [wanted])
    assert choice(asked, (many, many[:1]), "vec_tile").used.startswith("yes: asked")
