# SPDX-License-Identifier: Apache-2.0
"""Operators of real models, each one program of the tile language: docs/models.md.

`pto.models.indexer_prolog(...)` takes NumPy arrays or torch tensors (then it is
torch.ops.pto.indexer_prolog), and traced tensors inside a traced function. Caches are written
where they lie.
"""

from pto.models.decode import MlaDecodeStep as mla_decode_step
from pto.models.delta import GatedDeltaRule as gated_delta_rule
from pto.models.gate import TopkGate as topk_gate
from pto.models.indexer import IndexerProlog as indexer_prolog
from pto.models.indexer import LightningIndexer as lightning_indexer
from pto.models.indexer import LightningIndexerBf16 as lightning_indexer_bf16
from pto.models.mla import MlaProlog as mla_prolog
from pto.models.mla import MlaPrologBf16 as mla_prolog_bf16
from pto.models.moe import Moe as moe
from pto.models.paged import PagedAttention as paged_attention
from pto.models.qwen3 import Qwen3Attention as qwen3_attention
from pto.models.sparse import SparseAttention as sparse_attention
from pto.models.sparse import SparseAttentionBf16 as sparse_attention_bf16

__all__ = [
    "indexer_prolog", "mla_prolog", "mla_prolog_bf16", "topk_gate", "moe", "lightning_indexer",
    "lightning_indexer_bf16", "sparse_attention", "sparse_attention_bf16", "mla_decode_step",
    "gated_delta_rule", "paged_attention", "qwen3_attention",
]  # fmt: skip
