# SPDX-License-Identifier: Apache-2.0
"""The model with PTO operators in place of its linear layers and the steps between them.

    with PtoSteps(model):
        model(**batch)            # the same object and weights

A linear layer packs its weight when it sees it again, and applies bias and GELU to each part of the
product while the cache has it. Before a LayerNorm it leaves the bias to the kernel that adds the
residual and normalises, which has the row in registers. Attention reads the heads where the linear
layers wrote them and writes its result as the next one reads it: no transposition, no copy.
Invariants: only the classes of modules change, and they are restored at the end.
"""

import pto.torch  # noqa: F401 registers torch.ops.pto
import torch
from torch import nn
from transformers.models.bert.modeling_bert import (
    BertEmbeddings,
    BertIntermediate,
    BertOutput,
    BertSdpaSelfAttention,
    BertSelfOutput,
)


class _Linear(nn.Linear):
    def forward(self, x):
        return torch.ops.pto.linear(x, self.weight, self.bias)


class _FusedAttention(BertSdpaSelfAttention):
    """softmax(q kᵀ / sqrt(width) + mask) v of all heads, for an encoder."""

    def forward(self, hidden_states, attention_mask=None, *others, **more):
        shape = (*hidden_states.shape[:2], self.num_attention_heads, self.attention_head_size)
        q, k, v = (layer(hidden_states).view(shape) for layer in (self.query, self.key, self.value))
        result = torch.ops.pto.attention(q, k, v, attention_mask, layout="LHD")
        return result.flatten(2), None


class _FusedIntermediate(BertIntermediate):
    """gelu(linear(x) + bias)."""

    def forward(self, hidden_states):
        dense = self.dense
        return torch.ops.pto.linear(hidden_states, dense.weight, dense.bias, activation="gelu")


def _normalised_sum(module, hidden_states, residual):
    """layernorm(linear(x) + bias + residual)."""
    norm, product = module.LayerNorm, torch.ops.pto.linear(hidden_states, module.dense.weight)
    return torch.ops.pto.bias_add_layer_norm(
        product, module.dense.bias, residual, norm.weight, norm.bias, norm.eps
    )


class _FusedSelfOutput(BertSelfOutput):
    def forward(self, hidden_states, input_tensor):
        return _normalised_sum(self, hidden_states, input_tensor)


class _FusedOutput(BertOutput):
    def forward(self, hidden_states, input_tensor):
        return _normalised_sum(self, hidden_states, input_tensor)


class _FusedEmbeddings(BertEmbeddings):
    """layernorm(words + types + positions), for token ids without past or given positions."""

    def forward(self, input_ids=None, token_type_ids=None, **others):
        norm, places = self.LayerNorm, self.position_ids[:, : input_ids.shape[1]]
        tokens = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        places = self.position_embeddings(places).expand_as(tokens)
        return torch.ops.pto.add_layer_norm(tokens, places, norm.weight, norm.bias, norm.eps)


REPLACED = {
    nn.Linear: _Linear,
    BertSdpaSelfAttention: _FusedAttention,
    BertIntermediate: _FusedIntermediate,
    BertSelfOutput: _FusedSelfOutput,
    BertOutput: _FusedOutput,
    BertEmbeddings: _FusedEmbeddings,
}


class PtoSteps:
    """A context in which the model's modules have the classes of `replaced`; enter it often."""

    def __init__(self, model, replaced=REPLACED):
        found = [(m, type(m)) for m in model.modules() if type(m) in replaced]
        self._modules = [(m, original, replaced[original]) for m, original in found]

    def __enter__(self):
        for module, _, fused in self._modules:
            module.__class__ = fused

    def __exit__(self, *error):
        for module, original, _ in self._modules:
            module.__class__ = original
