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

from collections.abc import Mapping
from typing import Any

import torch
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

import pto.torch  # noqa: F401 registers torch.ops.pto

Classes = Mapping[type[torch.nn.Module], type[torch.nn.Module]]


class _FusedEmbeddings(BertEmbeddings):
    """layernorm(words + types + positions), for token ids without past or given positions."""

    position_ids: torch.Tensor

    def forward(
        self, input_ids: Any = None, token_type_ids: Any = None, *others: Any, **more: Any
    ) -> torch.Tensor:
        norm, places = self.LayerNorm, self.position_ids[:, : input_ids.shape[1]]
        tokens = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        places = self.position_embeddings(places).expand_as(tokens)
        summed: torch.Tensor = torch.ops.pto.add_layer_norm(
            tokens, places, norm.weight, norm.bias, norm.eps
        )
        return summed


class FusedLayer(BertLayer):
    """Attention and feed-forward, each with its residual and LayerNorm, of an encoder."""

    def prepare(self) -> None:
        """Makes what forward() reads beside the parameters, where that is not there yet."""
        _join(self.attention.self)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: Any = None, *others: Any, **more: Any
    ) -> tuple[torch.Tensor]:
        own: Any = self.attention.self
        middle = self.intermediate.dense
        joined = self.linear("joined", hidden_states, *own.joined)
        seen = self.attend(joined, attention_mask)
        attended = self.normalised_sum("attended", self.attention.output, seen, hidden_states)
        wide = self.linear("wide", attended, middle.weight, middle.bias, activation="gelu")
        return (self.normalised_sum("output", self.output, wide, attended),)

    def attend(self, joined: Any, mask: Any, /) -> torch.Tensor:
        return self.attend_in_batch(joined, mask)

    def attend_in_batch(
        self, joined: Any, mask: Any = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attention among queries, keys and values [batch, length, 3 * width]."""
        own = self.attention.self
        q, k, v = joined.unflatten(-1, (3, own.num_attention_heads, -1)).unbind(2)
        seen: torch.Tensor = torch.ops.pto.attention(q, k, v, mask, lengths, layout="LHD")
        return seen.flatten(2)

    def normalised_sum(
        self, name: str, module: Any, x: torch.Tensor, residual: torch.Tensor
    ) -> torch.Tensor:
        """layernorm(linear(x) + bias + residual)."""
        dense, norm = module.dense, module.LayerNorm
        product = self.linear(name, x, dense.weight)
        summed: torch.Tensor = torch.ops.pto.bias_add_layer_norm(
            product, dense.bias, residual, norm.weight, norm.bias, norm.eps
        )
        return summed

    def linear(
        self,
        name: str,  # of the product in this layer
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str = "none",
    ) -> torch.Tensor:
        result: torch.Tensor = torch.ops.pto.linear(x, weight, bias, activation=activation)
        return result


REPLACED: Classes = {BertLayer: FusedLayer, BertEmbeddings: _FusedEmbeddings}


def _join(attention: Any) -> None:
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
    """A context in which the model's modules have the classes of `replaced`; enter it often. It
    serves the weights that the model has when the context is made."""

    def __init__(self, model: torch.nn.Module, replaced: Classes = REPLACED) -> None:
        found = [(m, type(m)) for m in model.modules() if type(m) in replaced]
        self._modules = [(m, original, replaced[original]) for m, original in found]
        with self:
            for layer in model.modules():
                if isinstance(layer, FusedLayer):
                    layer.prepare()

    def __enter__(self) -> None:
        for module, _, fused in self._modules:
            module.__class__ = fused

    def __exit__(self, *error: object) -> None:
        for module, original, _ in self._modules:
            module.__class__ = original
