# SPDX-License-Identifier: Apache-2.0
"""Operators of real models, each one program of the tile language: docs/models.md.

`pto.models.indexer_prolog(...)` takes NumPy arrays or torch tensors (then it is
torch.ops.pto.indexer_prolog), and traced tensors inside a traced function. Caches are written
where they lie.
"""

from typing import NoReturn

from pto.errors import unknown_attribute
from pto.models.decode import MlaDecodeStep as mla_decode_step
from pto.models.decode import MlaDecodeStepFloat as mla_decode_step_float
from pto.models.delta import GatedDeltaRule as gated_delta_rule
from pto.models.gate import TopkGate as topk_gate
from pto.models.gate import TopkGateShared as topk_gate_shared
from pto.models.indexer import IndexerProlog as indexer_prolog
from pto.models.indexer import IndexerPrologFloat as indexer_prolog_float
from pto.models.indexer import LightningIndexer as lightning_indexer
from pto.models.indexer import LightningIndexerFloat as lightning_indexer_float
from pto.models.mla import MlaProlog as mla_prolog
from pto.models.mla import MlaPrologFloat as mla_prolog_float
from pto.models.moe import Moe as moe
from pto.models.moe import MoeExperts as moe_experts
from pto.models.moe import MoeInt8 as moe_int8
from pto.models.paged import PagedAttention as paged_attention
from pto.models.qwen3 import Qwen3Attention as qwen3_attention
from pto.models.sparse import SparseAttention as sparse_attention
from pto.models.sparse import SparseAttentionFloat as sparse_attention_float
from pto.models.sparse import SparseAttentionPacked as sparse_attention_packed

__all__ = [
    "indexer_prolog", "indexer_prolog_float", "mla_prolog", "mla_prolog_float", "topk_gate",
    "topk_gate_shared", "moe", "moe_int8", "moe_experts", "lightning_indexer",
    "lightning_indexer_float", "sparse_attention", "sparse_attention_packed",
    "sparse_attention_float", "mla_decode_step", "mla_decode_step_float", "gated_delta_rule",
    "paged_attention", "qwen3_attention",
]  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise unknown_attribute("pto.models", name, __all__)
