# SPDX-License-Identifier: Apache-2.0
"""The model of fused.py on the words of a batch alone, without its padding.

    with PtoSteps(model, UNPADDED):
        model(**batch)            # zeros where the mask is zero

Sentences of different lengths fill a batch with padding, which a model computes like words and then
ignores. Here the words stand one after another, [words, width], and only attention, which must not
mix sentences, sees them as a batch: every sentence at the beginning of its row.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer, BertModel

from examples.demo.fused import Classes, FusedLayer


@dataclass(frozen=True)
class Words:
    """Where the words of a batch stand, by its mask [batch, length] of ones and zeros."""

    mask: torch.Tensor

    @cached_property
    def places(self) -> tuple[torch.Tensor, ...]:
        """(rows, columns) of the words, i64 [words] each."""
        return self.mask.nonzero(as_tuple=True)

    @cached_property
    def lengths(self) -> torch.Tensor:
        return self.mask.sum(1)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(sentences, words of the longest): the batch in which every sentence begins its row."""
        return len(self.mask), int(self.lengths.max())

    @cached_property
    def slots(self) -> torch.Tensor | None:
        """The place of each word in that batch, i64 [words]; None where words fill it."""
        rows = self.places[0]
        if len(rows) == self.shape[0] * self.shape[1]:
            return None
        firsts = self.lengths.cumsum(0) - self.lengths
        return (
            torch.arange(len(rows)) + (torch.arange(self.shape[0]) * self.shape[1] - firsts)[rows]
        )


class _UnpaddedEmbeddings(BertEmbeddings):
    def of_words(self, ids: torch.Tensor, types: torch.Tensor, words: Words) -> torch.Tensor:
        norm, places = self.LayerNorm, self.position_embeddings(words.places[1])
        tokens = self.word_embeddings(ids[words.places])
        tokens += self.token_type_embeddings(types[words.places])
        summed: torch.Tensor = torch.ops.pto.add_layer_norm(
            tokens, places, norm.weight, norm.bias, norm.eps
        )
        return summed


class UnpaddedLayer(FusedLayer):
    def attend(self, joined: Any, words: Words, /) -> torch.Tensor:
        if words.slots is None:
            return self.attend_in_batch(joined.unflatten(0, words.shape)).flatten(0, 1)
        batch = joined.new_zeros(words.shape[0] * words.shape[1], joined.shape[-1])
        batch[words.slots] = joined
        seen = self.attend_in_batch(batch.unflatten(0, words.shape), lengths=words.lengths)
        return seen.flatten(0, 1)[words.slots]


class _UnpaddedModel(BertModel):
    """last_hidden_state for token ids and a mask."""

    embeddings: _UnpaddedEmbeddings

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  fewer parameters
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        **others: Any,
    ) -> BaseModelOutputWithPoolingAndCrossAttentions:
        words = Words(attention_mask)
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        hidden = self.embeddings.of_words(input_ids, types, words)
        for layer in self.encoder.layer:
            (hidden,) = layer(hidden, words)
        result: Any = hidden.new_zeros(*input_ids.shape, hidden.shape[-1])
        result[words.places] = hidden
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=result)


UNPADDED: Classes = {
    BertModel: _UnpaddedModel,
    BertEmbeddings: _UnpaddedEmbeddings,
    BertLayer: UnpaddedLayer,
}
