# SPDX-License-Identifier: Apache-2.0
"""Decoder layers of transformers, eager, with random weights, which layers of layers.py take. Where
transformers is not installed, or too old for a layer, there is no module."""

from dataclasses import asdict
from importlib import import_module, util
from typing import Any

import torch
from torch import Tensor

from examples.models import modules
from examples.models.layers import Deepseek, DeepseekSizes, Qwen3, Qwen3Sizes
from examples.models.pages import Pages

BF16 = torch.bfloat16


def _module(family: str, layer: str, **sizes: Any) -> Any:
    """A decoder layer in bf16 whose weights keep the size of what they multiply, or None."""
    if not util.find_spec("transformers"):
        return None
    transformers = import_module("transformers")
    try:
        modeling = import_module(f"transformers.models.{family}.modeling_{family}")
    except ImportError:
        return None
    names = {"deepseek_v32": "DeepseekV32", "qwen3_moe": "Qwen3Moe"}
    config = getattr(transformers, names[family] + "Config")(
        num_hidden_layers=1, attn_implementation="eager", **sizes
    )
    config._experts_implementation = "eager"
    before = torch.get_default_dtype()
    torch.set_default_dtype(BF16)
    try:
        found = getattr(modeling, names[family] + layer)(config, 0)
    finally:
        torch.set_default_dtype(before)
    for weight in found.parameters():
        if weight.ndim > 1:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    found.config = config
    return found.requires_grad_(False).eval()


def deepseek(layer: type[Deepseek], sizes: DeepseekSizes) -> tuple[Deepseek, Any]:
    """(layer, module) of DeepSeek V3.2."""
    more = {"first_k_dense_replace": 0, "num_key_value_heads": sizes.num_attention_heads}
    module = _module("deepseek_v32", "DecoderLayer", **asdict(sizes), **more)
    if module is None:
        return layer(sizes), None
    module.mlp.gate.e_score_correction_bias = torch.randn(sizes.n_routed_experts) / 10
    gate, shared = module.mlp.gate, module.mlp.shared_experts
    both = torch.cat([shared.gate_proj.weight, shared.up_proj.weight])[None]
    experts = module.mlp.experts
    weights = {
        "attention": modules.latent_weights(module.self_attn)
        | modules.indexer_weights(module.self_attn.indexer),
        "norms": [module.input_layernorm.weight, module.post_attention_layernorm.weight],
        "gate": (gate.weight.T.contiguous(), gate.e_score_correction_bias),
        "experts": (
            torch.cat([experts.gate_up_proj, both]).mT.contiguous(),
            torch.cat([experts.down_proj, shared.down_proj.weight[None]]).mT.contiguous(),
        ),
    }
    return layer(sizes, weights), module


def qwen3(layer: type[Qwen3], sizes: Qwen3Sizes) -> tuple[Qwen3, Any]:
    """(layer, module) of Qwen3-MoE."""
    module = _module("qwen3_moe", "DecoderLayer", norm_topk_prob=True, **asdict(sizes))
    if module is None:
        return layer(sizes), None
    attention, mlp = module.self_attn, module.mlp
    if not hasattr(mlp.experts, "gate_up_proj"):  # before transformers 5
        return layer(sizes), None
    weights = {
        "qkv": [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight],
        "o": attention.o_proj.weight,
        "heads": [attention.q_norm.weight, attention.k_norm.weight],
        "norms": [module.input_layernorm.weight, module.post_attention_layernorm.weight],
        "experts": (mlp.gate.weight.T.contiguous(), *modules.expert_weights(mlp.experts)),
    }
    return layer(sizes, weights), module


def cache_of(module: Any, layer: Deepseek | Qwen3, pages: Pages) -> Any:
    """transformers' cache with the tokens of these pages."""
    cache = import_module("transformers").DynamicCache(config=module.config)
    rows = {name: pages.read(name).transpose(1, 2) for name in layer.rows}
    if "kv_cache" in rows:
        cache.update(rows["kv_cache"], rows["kr_cache"], 0)
        cache.update_indexer(rows["k_cache"][:, 0], 0)
    else:
        cache.update(rows["keys"], rows["values"], 0)
    return cache


def decode(module: Any, cache: Any, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """The module's output for a new token [b, hidden] of each sequence."""
    mask = torch.zeros(len(x), 1, 1, cache.get_seq_length() + 1, dtype=x.dtype)
    both = tuple(one[None].expand(len(x), -1, -1) for one in turn)
    out = module(x[:, None], attention_mask=mask, past_key_values=cache, position_embeddings=both)
    states: Tensor = out if torch.is_tensor(out) else out[0]
    return states[:, 0]
