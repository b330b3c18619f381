# SPDX-License-Identifier: Apache-2.0
"""What holds for every operator of real models, in small sizes: the compiler keeps its values, and
odd arguments change nothing that they should not, or are errors."""

import threading

import ml_dtypes
import pytest
import torch

import pto
import pto.torch  # noqa: F401 registers torch.ops.pto
from bench import model_formulas as formulas
from pto import models

F32, BF16 = torch.float32, torch.bfloat16


def shared_gate_arguments():
    expert = formulas.random_expert(64, 16)
    return [formulas.random(3, 64), *formulas.gate_arguments(3, 32, 64)[1:], *expert]


def experts_arguments():
    x, _, up, down = formulas.moe_arguments(5, 64, 16, 8, k=2)
    return [x, torch.rand(5, 2), torch.randint(0, 8, (5, 2)), up, down]


def float_indexer_arguments():
    x, _, _, w_qb, _, wk, w_proj, *rest, _, _, k_cache, _, slots = formulas.indexer_arguments(5)
    rank, columns = w_qb.shape
    q_norm, w_qb = formulas.random(5, rank), formulas.random(rank, columns, scale=rank**-0.5)
    return [x, q_norm, w_qb, wk, w_proj, *rest, k_cache.to(BF16), slots]


def float_keys_arguments():
    q, _, weights, k_cache, _, *where = formulas.lightning_arguments([40, 17], 2)
    return [q.float(), weights.float(), k_cache.float(), *where]


def packed_arguments():
    given = formulas.sparse_arguments([40, 17], 2, k=20)
    return [*given[:2], formulas.packed(*given[2:5]), *given[5:]]


CASES = {
    "indexer_prolog": (lambda: formulas.indexer_arguments(5), {}),
    "indexer_prolog_float": (float_indexer_arguments, {}),
    "mla_prolog": (lambda: formulas.mla_arguments(5), {}),
    "mla_prolog_float": (lambda: formulas.mla_arguments(5, quantised=False), {}),
    "topk_gate": (
        lambda: formulas.gate_arguments(3, 32, 64),
        {"k": 4, "groups": 4, "best_groups": 2},
    ),
    "topk_gate_shared": (shared_gate_arguments, {"k": 4}),
    "moe": (lambda: formulas.moe_arguments(5, 64, 16, 8, k=2), {"k": 2}),
    "moe_int8": (lambda: formulas.moe_int8_arguments(5, 64, 16, 8, k=2), {"k": 2}),
    "moe_experts": (experts_arguments, {}),
    "lightning_indexer": (lambda: formulas.lightning_arguments([40, 17], 2), {"k": 8}),
    "lightning_indexer_float": (float_keys_arguments, {"k": 8}),
    "sparse_attention": (lambda: formulas.sparse_arguments([40, 17], 2, k=20), {"scale": 0.1}),
    "sparse_attention_packed": (packed_arguments, {"scale": 0.1}),
    "sparse_attention_float": (
        lambda: formulas.sparse_arguments([40, 17], 2, k=20, quantised=False),
        {"scale": 0.1},
    ),
    "mla_decode_step": (lambda: formulas.decode_arguments([40, 17], 1), {"scale": 0.1, "k": 8}),
    "mla_decode_step_float": (
        lambda: formulas.decode_float_arguments([40, 17], 1, BF16),
        {"scale": 0.1, "k": 8},
    ),
    "gated_delta_rule": (lambda: formulas.delta_arguments([70, 3], 1, 2, 16, 16), {}),
    "paged_attention": (lambda: formulas.paged_arguments([40, 3], 2, 4, 2, 16, 16), {}),
    "qwen3_attention": (lambda: formulas.qwen3_arguments([40, 3], 2, 4, 2, 16, 16), {}),
}
# Arguments with a row for each token, of operators whose tokens have nothing to do with each other.
BY_TOKEN = {
    "indexer_prolog": (0, 1, 2, 9, 10, 15), "indexer_prolog_float": (0, 1, 7, 8, 10),
    "mla_prolog": (0, 8, 9, 13), "mla_prolog_float": (0, 7, 8, 11), "topk_gate": (0,),
    "topk_gate_shared": (0,), "moe": (0,), "moe_int8": (0,), "moe_experts": (0, 1, 2),
}  # fmt: skip
REASONS = {  # findings of health(), and why they stay
    "copy": "parts of rows go where a product, a turn or a cache takes them as one run",
    "small kernels": "the sizes are small here",
    "equal kernels": "queries and keys go through the same formulas, as do halves of a triangle",
    "loop in order": "experts add rows to one result, and queries share a buffer of scores; their"
    " products and pages run side by side",
    "size from data": "how many keys and tokens of an expert there are is read from arguments",
}
IN_ORDER = {"moe", "moe_int8", "moe_experts", "lightning_indexer", "lightning_indexer_float",
            "mla_decode_step", "mla_decode_step_float"}  # fmt: skip
FROM_DATA = {"moe", "moe_int8", "moe_experts", "paged_attention", "qwen3_attention"}

VARIANTS = ("_float", "_shared", "_int8", "_experts", "_packed")  # of operators without the ending
every = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def chosen(name, deep):
    """An operator; in the quick run the variants of others are skipped."""
    if not deep and name.endswith(VARIANTS):
        pytest.skip("in ./dev test --deep")
    return name


def given(name):
    torch.manual_seed(0)
    return CASES[name][0]()


def called(name, arguments):
    """The results, in a tuple."""
    found = getattr(models, name)(*arguments, **CASES[name][1])
    return found if isinstance(found, tuple) else (found,)


def as_numpy(x):
    if x.dtype == BF16:
        return x.view(torch.int16).numpy().copy().view(ml_dtypes.bfloat16)
    return x.numpy().copy()


def copies(arguments):
    return [x.clone() for x in arguments]


def caches_of(name):
    """The places of the arguments that are written."""
    tensors = getattr(models, name).tensors
    return [i for i, a in enumerate(tensors) if a.mutable]


with_caches = pytest.mark.parametrize("name", [name for name in CASES if caches_of(name)])


def assert_same(found, right):
    assert len(found) == len(right)
    assert all(torch.equal(a, b) for a, b in zip(found, right, strict=True))


def program_of(name):
    """A function that calls the operator, and its arguments. Its names and constants are those of
    the operator, and real attributes are arguments, so that it runs the operator's own kernel where
    both are equal."""
    operator, attributes, arguments = getattr(models, name), dict(CASES[name][1]), given(name)
    reals = {a.name: attributes.pop(a.name, a.default)
             for a in operator.attributes if a.kind == "float"}  # fmt: skip
    reals = {real: value for real, value in reals.items() if value is not None}
    tensors = operator.tensor_names[: len(arguments)]
    passed = ", ".join([*tensors, *(f"{real}={real}" for real in reals)])
    scope = {"operator": operator, "attributes": attributes}
    text = f"lambda {', '.join([*tensors, *reals])}: operator({passed}, **attributes)"
    function = eval(text, scope)
    function.__name__ = function.__qualname__ = name
    constants = operator.definition.__dict__.get("constants", ())
    function.__annotations__ = {one: pto.Constant for one in constants if one in tensors}
    return pto.jit(function), [*arguments, *reals.values()]


def test_every_operator_is_here():
    assert set(CASES) == set(models.__all__)


@every
def test_each_pass_and_the_compiled_form_keep_the_values(name, chosen):
    program, arguments = program_of(chosen)
    report = pto.verify(program, *arguments)
    assert report.is_equal, report


@every
def test_health_finds_only_what_has_a_reason(name):
    program, arguments = program_of(name)
    kinds = {one.kind for one in pto.health(program, *arguments).findings}
    assert kinds <= set(REASONS)
    assert "loop in order" not in kinds or name in IN_ORDER
    assert "size from data" not in kinds or name in FROM_DATA


@every
def test_other_element_types_and_ranks_are_errors(name):
    for place, x in enumerate(given(name)):
        for wrong in (x.to(torch.complex64), x[None], x.to(torch.int16)):
            arguments = given(name)
            arguments[place] = wrong
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                called(name, arguments)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan], ids=str)
@pytest.mark.parametrize("name", BY_TOKEN)
def test_what_is_no_number_stays_in_its_token(name, value):
    plain, spoilt = given(name), given(name)
    spoilt[0][1, 3] = value
    others = [i for i in range(len(plain[0])) if i != 1]
    results = [called(name, x) for x in (plain, spoilt)]
    assert_same([x[others] for x in results[1]], [x[others] for x in results[0]])


@pytest.mark.parametrize("name", BY_TOKEN)
def test_no_tokens_give_nothing_and_change_no_cache(name):
    arguments = [x[:0] if i in BY_TOKEN[name] else x for i, x in enumerate(given(name))]
    before = copies(arguments)
    assert all(len(x) == 0 for x in called(name, arguments))
    assert_same(arguments, before)


@pytest.mark.parametrize("name", BY_TOKEN)
def test_a_token_alone_has_its_bits(name, chosen):
    whole = called(chosen, given(name))
    for i in range(len(whole[0])):
        one = [x[i : i + 1] if j in BY_TOKEN[name] else x for j, x in enumerate(given(name))]
        assert_same(called(name, one), [x[i : i + 1] for x in whole])


@with_caches
def test_a_cache_that_is_a_view_is_written_and_what_lies_between_stays(name, chosen):
    dense, apart = given(chosen), given(name)
    right = called(name, dense)
    for place in caches_of(name):
        *rows, width = apart[place].shape
        whole = torch.full((*rows, width + 8), 5).to(apart[place].dtype)
        whole[..., :width] = apart[place]
        apart[place] = whole[..., :width]
    assert_same(called(name, apart), right)
    for place in caches_of(name):
        assert torch.equal(apart[place], dense[place])
        between = apart[place].as_strided((8,), (1,), apart[place].shape[-1])
        assert (between == 5).all()


with_two_caches = pytest.mark.parametrize("name", [n for n in CASES if len(caches_of(n)) > 1])


@with_two_caches
@pytest.mark.parametrize("kind", ["torch", "npu", "numpy"])
def test_caches_that_share_memory_are_refused_before_anything_is_written(name, kind):
    arguments = given(name)
    first, second = caches_of(name)[:2]
    sizes = [arguments[i].nbytes for i in (first, second)]
    both = torch.zeros(sum(sizes), dtype=torch.int8)
    both = both.to("npu") if kind == "npu" else both.numpy() if kind == "numpy" else both
    make = {"torch": lambda x: x, "npu": lambda x: x.to("npu"), "numpy": as_numpy}[kind]
    made = [make(x) for x in arguments]
    for place, begin in ((first, 0), (second, sizes[0] - 64)):
        part = both[begin : begin + made[place].nbytes]
        made[place] = part.view(made[place].dtype).reshape(made[place].shape)
    second_name = getattr(models, name).tensor_names[second]
    with pytest.raises((RuntimeError, ValueError), match=f"{second_name}.* {sizes[0] - 64} to"):
        called(name, made)
    assert not both.any()


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.to("npu"), as_numpy],
                         ids=["torch", "npu", "numpy"])  # fmt: skip
def test_keys_and_values_may_alternate_in_one_buffer(make):
    right, apart = given("qwen3_attention"), [make(x) for x in given("qwen3_attention")]
    results = called("qwen3_attention", right)
    places = caches_of("qwen3_attention")
    whole = make(torch.stack([x for i, x in enumerate(given("qwen3_attention")) if i in places], 1))
    for k, place in enumerate(places):
        apart[place] = whole[:, k]
    found = called("qwen3_attention", apart)
    assert_same([torch.as_tensor(x.astype("f") if make is as_numpy else x).cpu() for x in found],
                [x.float() if make is as_numpy else x for x in results])  # fmt: skip
    for place in places:
        assert (make(right[place]) == apart[place]).all()


@with_caches
def test_a_cache_that_cannot_be_written_is_an_error_before_anything_is(name):
    for place in caches_of(name):
        arguments = [as_numpy(x) for x in given(name)]
        before = [x.copy() for x in arguments]
        arguments[place].flags.writeable = False
        with pytest.raises((RuntimeError, ValueError, TypeError), match="read-only"):
            getattr(models, name)(*arguments, **CASES[name][1])
        for x, y in zip(arguments, before, strict=True):
            assert x.tobytes() == y.tobytes()


@with_caches
def test_calls_of_two_threads_on_one_cache_give_what_one_gives(name):
    """Both write the same rows. The delta rule, whose state goes on, has states of its own."""
    right, shared = given(name), given(name)
    results = called(name, right)
    found: list = [None, None]
    goes_on = name == "gated_delta_rule"
    own = [[x if j in caches_of(name) and not goes_on else x.clone()
            for j, x in enumerate(shared)] for _ in found]  # fmt: skip

    def work(i):
        found[i] = called(name, own[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        assert_same(one, results)
    if not goes_on:
        assert_same(shared, right)


@pytest.mark.parametrize(
    "name", [n for n in CASES if getattr(models, n).definition.__dict__.get("constants")]
)
def test_weights_that_change_in_place_are_packed_anew(name):
    tensors = [a.name for a in getattr(models, name).tensors]
    places = [tensors.index(n) for n in getattr(models, name).definition.constants if n in tensors]
    arguments = given(name)
    for place in (p for p in places if p < len(arguments)):
        called(name, [x.clone() if i not in places else x for i, x in enumerate(arguments)])
        arguments[place].copy_(arguments[place].flip(0).clone())
        changed = called(
            name, [x.clone() if i not in places else x for i, x in enumerate(arguments)]
        )
        assert_same(changed, called(name, copies(arguments)))


@pytest.mark.parametrize("page", [-1, 10**6])
@pytest.mark.parametrize("name", ["mla_decode_step", "mla_decode_step_float", "qwen3_attention"])
def test_a_page_that_is_not_there_is_an_error_before_anything_is_written(name, page):
    place = list(getattr(models, name).tensor_names).index("table")
    right = called(name, given(name))
    arguments = given(name)
    arguments[place][1, -1] = page  # behind the keys of this sequence, where nothing reads
    assert_same(called(name, arguments), right)
    arguments = given(name)
    arguments[place][0, 0] = page
    before = copies(arguments)
    with pytest.raises(RuntimeError, match="pages of table are from 0 to the last of the cache"):
        called(name, arguments)
    assert_same(arguments, before)
