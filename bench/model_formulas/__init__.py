# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F401 (names for those who compare)
"""The formulas of the operators of pto.models in plain torch, and arguments for them.

The tests compare with them; the benches time them, as separate operations and compiled.
"""

from bench.model_formulas.deepseek import (
    decode_arguments,
    decode_step,
    indexer_arguments,
    indexer_prolog,
    lightning_arguments,
    lightning_indexer,
    lightning_scores,
    mla_arguments,
    mla_prolog,
    mla_prolog_bf16,
    rows_of,
    selected,
    sparse_arguments,
    sparse_attention,
)
from bench.model_formulas.delta import (
    compiled_delta_rule,
    delta_arguments,
    delta_token,
    gated_delta_rule,
    unit,
)
from bench.model_formulas.numbers import (
    BF16,
    lasting,
    q8,
    random,
    random_bytes,
    rms_norm,
    rope_half,
    rope_pair,
    scatter,
)
from bench.model_formulas.paged import (
    gathered,
    paged,
    paged_arguments,
    paged_attention,
    qwen3_arguments,
    qwen3_attention,
)
from bench.model_formulas.routing import gate_arguments, moe, moe_arguments, topk_gate
