# SPDX-License-Identifier: Apache-2.0
"""Operators of real models in the place of the forward of transformers' modules, which have the
model's sizes and random weights. `./dev test --models` runs them."""

from importlib import import_module, metadata

import pytest
import torch

import pto.torch  # noqa: F401 registers torch.ops.pto
from examples.models import modules
from examples.models.pages import Pages

VERSION = "5.23.0"
try:
    found = metadata.version("transformers")
except metadata.PackageNotFoundError:
    found = "none"
if found != VERSION:
    message = f"needs transformers {VERSION}, not {found}: run ./dev test --models"
    pytest.skip(message, allow_module_level=True)

transformers = import_module("transformers")
deepseek, glm, qwen3, qwen3_next = (
    import_module(f"transformers.models.{name}.modeling_{name}")
    for name in ("deepseek_v32", "glm4_moe", "qwen3_moe", "qwen3_next")
)
F32, BF16 = torch.float32, torch.bfloat16
both_types = pytest.mark.parametrize("dtype", [F32, BF16], ids=["f32", "bf16"])


def assert_agree(got, want):
    """f32 within 2e-4 of the largest; bf16 with a cosine of 0.9999."""
    assert got.shape == want.shape and got.dtype == want.dtype and got.isfinite().all()
    if want.dtype == F32:
        assert (got - want).abs().max() <= 2e-4 * want.abs().max()
    else:
        cosine = torch.nn.functional.cosine_similarity(
            got.double().flatten(), want.double().flatten(), 0
        )
        assert cosine >= 0.9999


def varied(module, dtype):
    """The module without gradients, with norms that are not 1, of this type but for its buffers."""
    torch.manual_seed(0)
    for name, weight in module.named_parameters():
        if "norm" in name:
            weight.data.uniform_(0.5, 1.5)
        elif name.endswith("weight") and not weight.any() or weight.ndim == 3:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    return module.requires_grad_(False).to(dtype).eval()


def angles(rotary, b, first, count, dtype):
    places = torch.arange(first, first + count).expand(b, -1)
    return rotary(torch.zeros(1, dtype=dtype), places)


def causal_mask(b, s, keys, dtype):
    """[b, 1, s, keys] to be added to scores."""
    seen = torch.ones(s, keys, dtype=torch.bool).tril(keys - s)
    mask = torch.zeros(s, keys, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
    return mask.expand(b, 1, s, keys)


# --- DeepSeek V3.2 -------------------------------------------------------------------------------


def deepseek_config(topk=2048):
    return transformers.DeepseekV32Config(
        num_hidden_layers=1, index_topk=topk, attn_implementation="eager"
    )


@both_types
def test_the_indexer_selects_as_the_module_does(dtype):
    """In f32 the same keys but for one of a query; in bf16 the scores of others are near."""
    b, s, k = 2, 301, 64
    config = deepseek_config(k)
    module, rotary = (
        deepseek.DeepseekV32Indexer(config, 0),
        deepseek.DeepseekV32RotaryEmbedding(config),
    )
    module = varied(module, dtype)
    hidden, residual = (torch.randn(b, s, n).to(dtype) for n in (7168, 1536))
    given = (
        hidden,
        residual,
        angles(rotary, b, 0, s, dtype),
        causal_mask(b, s, s, dtype)[:, 0],
        None,
    )
    want = module(*given)
    module.forward = modules.indexer(module)
    got = module(*given)
    assert got.shape == want.shape and got.dtype == want.dtype
    for i in range(s):
        for row in range(b):
            mine, theirs = (set(x[row, i].tolist()) - {-1} for x in (got, want))
            theirs = {j for j in theirs if j <= i}
            assert len(mine) == min(k, i + 1) and len(mine - theirs) <= (
                1 if dtype == F32 else k // 8
            )


@pytest.fixture(scope="module")
def attention():
    """DeepseekV32Attention in f32, with scores that are far apart."""
    module = varied(deepseek.DeepseekV32Attention(deepseek_config(), 0), F32)
    module.q_b_proj.weight *= 4
    return module


def attended(module, dtype, b, before, s):
    """(the module's output, ours) for s new tokens behind `before` of each sequence."""
    config, module = module.config, module.to(dtype)
    rotary = deepseek.DeepseekV32RotaryEmbedding(config)
    cache, pages = transformers.DynamicCache(config=config), None
    torch.manual_seed(1)
    if before:
        pages = Pages(b, before + s, modules.latent_rows(config), dtype)
        rows = {
            n: torch.randn(b, before, d).to(dtype)
            for n, (_, d) in modules.latent_rows(config).items()
        }
        for name, some in rows.items():
            pages.write(name, some)
        pages.tokens = before
        cache.update(rows["kv_cache"][:, None], rows["kr_cache"][:, None], 0)
        cache.update_indexer(rows["k_cache"], 0)
    hidden = torch.randn(b, s, 7168).to(dtype)
    given = hidden, angles(rotary, b, before, s, dtype), causal_mask(b, s, before + s, dtype)
    want, _ = module(*given, past_key_values=cache)
    theirs = module.forward
    try:
        module.forward = modules.latent_attention(module)
        got, _ = module(*given, past_key_values=pages)
    finally:
        module.forward = theirs
    return got, want


@both_types
def test_attention_of_a_prompt_is_that_of_the_module(attention, dtype):
    assert_agree(*attended(attention, dtype, 2, 0, 45))


@both_types
def test_attention_of_a_decode_step_is_that_of_the_module(attention, dtype):
    """In bf16 of as many keys as are selected: which of equally good ones are is roundings."""
    assert_agree(*attended(attention, dtype, 2, 2500 if dtype == F32 else 2040, 2))


@pytest.mark.parametrize("t", [1, 100])
@both_types
def test_the_router_of_deepseek_chooses_as_the_module_does(dtype, t):
    module = varied(deepseek.DeepseekV32TopkRouter(deepseek_config()), dtype)
    assert_routes(module, t, dtype)


# --- GLM, Qwen3 ----------------------------------------------------------------------------------


def assert_routes(module, t, dtype):
    module.e_score_correction_bias = torch.randn(module.num_experts) / 10
    hidden = torch.randn(t, module.hidden_dim).to(dtype)
    logits, weights, indices = module(hidden)
    order = indices.sort(-1)
    module.forward = modules.router(module)
    found = module(hidden)
    mine = found[2].sort(-1)
    assert torch.equal(mine.values, order.values)
    torch.testing.assert_close(found[1].gather(1, mine.indices), weights.gather(1, order.indices))
    torch.testing.assert_close(found[0], logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("experts, hidden", [(128, 4096), (160, 5120)])
def test_the_router_of_glm_chooses_as_the_module_does(experts, hidden):
    config = transformers.Glm4MoeConfig(
        n_routed_experts=experts, hidden_size=hidden, routed_scaling_factor=2.5
    )
    assert_routes(varied(glm.Glm4MoeTopkRouter(config), F32), 1026, F32)


def qwen3_config(**sizes):
    return transformers.Qwen3MoeConfig(
        head_dim=128, norm_topk_prob=True, attn_implementation="eager", num_hidden_layers=1, **sizes
    )


@pytest.mark.parametrize("t", [1, 64])
@both_types
def test_the_experts_of_qwen3_are_those_of_the_module(dtype, t):
    """All 128 in bf16, of tokens whose last expert is the best by more than a rounding; in f32 32
    experts, for their memory."""
    config = qwen3_config(num_experts=32 if dtype == F32 else 128)
    module = varied(qwen3.Qwen3MoeSparseMoeBlock(config), dtype)
    hidden = torch.randn(1, t, 2048).to(dtype)
    best = module.gate(hidden)[0].float().topk(9).values
    is_clear = best[:, 7] > best[:, 8] + (2**-6 * best[:, 8].abs() if dtype == BF16 else 0)
    assert is_clear.sum() >= t / 2
    want = module(hidden)
    module.forward = modules.qwen3_moe(module)
    assert_agree(module(hidden)[:, is_clear], want[:, is_clear])


@pytest.mark.parametrize("before, s", [(0, 512), (1000, 1), (300, 3)])
@both_types
def test_attention_of_qwen3_is_that_of_the_module(dtype, before, s):
    config, b = qwen3_config(), 2
    module, rotary = (
        varied(qwen3.Qwen3MoeAttention(config, 0), dtype),
        qwen3.Qwen3MoeRotaryEmbedding(config),
    )
    cache, row = transformers.DynamicCache(config=config), (4, 128)
    pages = Pages(b, before + s, {"keys": row, "values": row}, dtype)
    if before:
        k, v = (torch.randn(b, before, *row).to(dtype) for _ in "kv")
        pages.write("keys", k)
        pages.write("values", v)
        pages.tokens = before
        cache.update(k.transpose(1, 2), v.transpose(1, 2), 0)
    hidden = torch.randn(b, s, 2048).to(dtype)
    given = hidden, angles(rotary, b, before, s, dtype), causal_mask(b, s, before + s, dtype)
    want, _ = module(*given, past_key_values=cache)
    module.forward = modules.qwen3_attention(module)
    assert_agree(module(*given, past_key_values=pages)[0], want)


# --- Qwen3-next ----------------------------------------------------------------------------------


def delta_arguments(b, t, key_heads=16, heads=32, d=128):
    torch.manual_seed(t)
    q, k, v = (torch.randn(b, t, n, d) for n in (key_heads, key_heads, heads))
    return q, k, v, -torch.rand(b, t, heads) / 4, torch.rand(b, t, heads)


@pytest.mark.parametrize("has_state", [False, True], ids=["from_zeros", "from_a_state"])
@pytest.mark.parametrize("t", [1, 63, 64, 1026])
def test_the_delta_rule_is_that_of_both_functions(t, has_state):
    """Within 1e-3 of the largest."""
    given = delta_arguments(2, t)
    state = torch.randn(2, 32, 128, 128) if has_state else None
    got = modules.delta_rule(*given, initial_state=state)
    options = {"output_final_state": True, "use_qk_l2norm_in_kernel": True, "initial_state": state}
    functions = [qwen3_next.torch_chunk_gated_delta_rule]
    if t <= 64:  # the other goes token by token
        functions.append(qwen3_next.torch_recurrent_gated_delta_rule)
    for function in functions:
        for mine, want in zip(got, function(*given, **options), strict=True):
            assert (mine - want).abs().max() <= 1e-3 * want.abs().max()


def test_the_delta_rule_takes_bf16_as_both_functions_do():
    q, k, v, g, beta = (x.bfloat16() for x in delta_arguments(1, 200))
    got, _ = modules.delta_rule(q, k, v, g, beta)
    want, _ = qwen3_next.torch_chunk_gated_delta_rule(
        q, k, v, g, beta, use_qk_l2norm_in_kernel=True
    )
    assert_agree(got, want)
