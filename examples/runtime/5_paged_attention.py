# SPDX-License-Identifier: Apache-2.0
"""Paged attention: the orchestration reads a block table and submits one task a page.

Takes the number of sequences; 1032 of them make 64,000 tasks or so.
"""

import sys
from pathlib import Path

import numpy as np

import pto

HERE = Path(__file__).parent
SEQUENCES = int(sys.argv[1]) if len(sys.argv) > 1 else 12
PAGE, HEAD, PAGES_MAX, BLOCKS = 64, 64, 122, 512

rng = np.random.default_rng(0)
lengths = rng.integers(1, PAGE * PAGES_MAX, SEQUENCES, np.int32)
table = rng.integers(0, BLOCKS, (SEQUENCES, PAGES_MAX), np.int32)
queries = rng.standard_normal((SEQUENCES, HEAD), np.float32)
keys, values = rng.standard_normal((2, BLOCKS, PAGE, HEAD), np.float32)
out = np.empty_like(queries)

with pto.Runtime(level="chip") as rt:
    rt.register(
        "paged_attention",
        orch=HERE / "5_paged_attention.cpp",
        kernels=[
            {"source": HERE / "attention.cpp", "symbol": s} for s in ("attend_page", "finish")
        ],
    )
    inputs = [pto.Arg.input(x) for x in (queries, keys, values, table, lengths)]
    run = rt.submit("paged_attention", [pto.Arg.output(out), *inputs])
    run.result()


def attention(sequence: int) -> np.ndarray:
    own = table[sequence], slice(None), slice(None)
    k, v = (x[own].reshape(-1, HEAD)[: lengths[sequence]].astype("f8") for x in (keys, values))
    scores = k @ queries[sequence] / np.sqrt(HEAD)
    weights = np.exp(scores - scores.max())
    return np.asarray(weights @ v / weights.sum())


error = max(np.abs(out[s] - attention(s)).max() for s in range(SEQUENCES))
assert error < 1e-6 and run.report.tasks == (-(-lengths // PAGE)).sum() + SEQUENCES
print(run.report, "largest error:", error)
