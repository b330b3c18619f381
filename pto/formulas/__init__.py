# SPDX-License-Identifier: Apache-2.0
"""Standard operators as formulas of the tile language: one file a family, for every adapter.

A formula takes traced tensors and plain numbers, and knows no framework. The caller widens f16 and
bf16 before, and rounds what leaves the kernel. What the language has itself is not repeated here.
"""


class NotExpressible(Exception):
    """The language cannot say a framework's node, whose own kernel runs it; the text says why."""
