# SPDX-License-Identifier: Apache-2.0
"""torch.compile and jitted functions: a call is one node of the graph that Dynamo makes.

Dynamo cannot look into a callable of C++. It runs the callable on fake tensors, where a jitted
function calls its operator of PyTorch; AOTAutograd and Inductor then see the operator. Source:
torch._dynamo.nonstrict_trace of 2.13, which does this for Python functions.
"""

import warnings
import weakref
from typing import Any

import torch
from pto.language import method
from torch._dynamo import symbolic_convert, trace_rules

_kept: set[int] = set()
method.is_compiling = torch.compiler.is_compiling


def keep_in_graphs(function: Any) -> None:
    """Makes calls of this function nodes of Dynamo's graphs, with containers as in eager calls.

    Strict export takes no such nodes: there a function has to return one tensor or a tuple.
    """
    place, with_containers = id(function), trace_rules._nonstrict_trace_callable_ids
    if torch.compiler.is_exporting():
        with_containers.remove(place)
    else:
        with_containers.add(place)
    if place in _kept:
        return
    _kept.add(place)
    trace_rules._allowed_callable_ids.add(place)

    def forget() -> None:
        _kept.discard(place)
        trace_rules._allowed_callable_ids.remove(place)
        with_containers.remove(place)

    weakref.finalize(function, forget)


def tell(error: Exception) -> None:
    """Warns of the error of a call that torch.compile(fullgraph=True) makes a node.

    PyTorch puts another one in its place, of a result without a known type. Without `fullgraph` the
    graph breaks, and the call is made again, with its own error.
    """
    if getattr(getattr(symbolic_convert.tls, "current_tx", None), "one_graph", False):
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
