# SPDX-License-Identifier: Apache-2.0
"""The table of our rows: overloads of ATen as formulas of the tile language, one file a family.

rows.py says what a row is; tests/test_aten_rows.py holds each row to its distance from ATen.
adapters/torch/compile has rows beside these for graphs of torch.compile. `ALIASES` names the
operators that PyTorch has under several names, `LEFT` the names of the required list that have no
row though they are pointwise, products, norms or copies.
"""

from pto.aten.rows import ROWS, Row
from pto.aten.table import (  # noqa: F401  each puts its rows into ROWS
    activations,
    backward,
    conditions,
    copies,
    indexing,
    loss_gradients,
    losses,
    norms,
    pointwise,
    products,
    reductions,
    special,
)
from pto.aten.table.aliases import ALIASES, LEFT, add_aliases

__all__ = ["ALIASES", "LEFT", "ROWS", "Row"]

add_aliases(ROWS)
