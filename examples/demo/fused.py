# SPDX-License-Identifier: Apache-2.0
"""The model with PTO operators in place of its linear layers and the steps between them.

    with PtoSteps(model):
        model(**batch)            # the same object and weights

A layer of the encoder is eight calls. Queries, keys and values are one product: their weights
become views of one matrix. Attention reads the heads where that product wrote them and writes its
result as the next one reads it: no transposition, no copy. A linear layer packs its weight when it
sees it again, and applies bias and GELU to each part of the product while the cache has it. Before
a LayerNorm it leaves the bias to the kernel that adds the residual and normalises, which has the
row in registers.
Invariants: the numbers of the model stay; the classes of modules change, and are restored at the
end.
"""

import torch
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

import pto.torch  # noqa: F401 registers torch.ops.pto


class _FusedEmbeddings(BertEmbeddings):
    """layernorm(words + types + positions), for token ids without past or given positions."""

    def forward(self, input_ids=None, token_type_ids=None, **others):
        norm, places = self.LayerNorm, self.position_ids[:, : input_ids.shape[1]]
        tokens = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        places = self.position_embeddings(places).expand_as(tokens)
        return torch.ops.pto.add_layer_norm(tokens, places, norm.weight, norm.bias, norm.eps)


class FusedLayer(BertLayer):
    """Attention and feed-forward, each with its residual and LayerNorm, of an encoder."""

    def forward(self, hidden_states, attention_mask=None, *others, **more):
        middle = self.intermediate.dense
        joined = self.linear(hidden_states, *self.attention.self.joined)
        seen = self.attend(joined, attention_mask)
        attended = self.normalised_sum(self.attention.output, seen, hidden_states)
        wide = self.linear(attended, middle.weight, middle.bias, activation="gelu")
        return (self.normalised_sum(self.output, wide, attended),)

    def attend(self, joined, mask=None, lengths=None):
        """Attention among queries, keys and values [batch, length, 3 * width]."""
        own = self.attention.self
        q, k, v = joined.unflatten(-1, (3, own.num_attention_heads, -1)).unbind(2)
        return torch.ops.pto.attention(q, k, v, mask, lengths, layout="LHD").flatten(2)

    def normalised_sum(self, module, x, residual):
        """layernorm(linear(x) + bias + residual)."""
        dense, norm = module.dense, module.LayerNorm
        return torch.ops.pto.bias_add_layer_norm(
            self.linear(x, dense.weight), dense.bias, residual, norm.weight, norm.bias, norm.eps
        )

    def linear(self, x, weight, bias=None, activation="none"):
        return torch.ops.pto.linear(x, weight, bias, activation=activation)


REPLACED = {BertLayer: FusedLayer, BertEmbeddings: _FusedEmbeddings}


def _join(attention):
    """Makes queries, keys and values one product: their weights become views of one matrix, their
    biases of one vector, both kept in `joined`. Tensors made in inference mode count no changes,
    so a product could not trust a packed copy of them: hence outside of it."""
    layers = (attention.query, attention.key, attention.value)
    weight = getattr(attention, "joined", (None,))[0]
    if weight is not None and weight.data_ptr() == layers[0].weight.data_ptr():
        return
    kinds = [[layer.weight for layer in layers], [layer.bias for layer in layers]]
    with torch.inference_mode(False):
        attention.joined = tuple(torch.cat(kind).detach() for kind in kinds)
        for kind, joined in zip(kinds, attention.joined, strict=True):
            for parameter, part in zip(kind, joined.chunk(len(layers)), strict=True):
                parameter.data = part


class PtoSteps:
    """A context in which the model's modules have the classes of `replaced`; enter it often."""

    def __init__(self, model, replaced=REPLACED):
        found = [(m, type(m)) for m in model.modules() if type(m) in replaced]
        self._modules = [(m, original, replaced[original]) for m, original in found]

    def __enter__(self):
        for module, _, fused in self._modules:
            module.__class__ = fused
            if isinstance(module, FusedLayer):
                _join(module.attention.self)

    def __exit__(self, *error):
        for module, original, _ in self._modules:
            module.__class__ = original
