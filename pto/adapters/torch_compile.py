# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="pto"): the entry point that PyTorch finds by itself.

It loads the backend at the first graph.
"""

from collections.abc import Callable, Sequence
from typing import Any


def backend(graph: Any, inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The compiled form of a graph of Dynamo; see adapters/torch/compile."""
    from pto.adapters.torch.compile import backend as compile_graph

    return compile_graph(graph, inputs, **kwargs)
