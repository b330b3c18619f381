# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime adapter: our operators, and a provider that compiles nodes to tile kernels.

    import onnxruntime, pto.onnxruntime
    session = onnxruntime.InferenceSession("model.onnx", providers=pto.onnxruntime.providers)

Importing it registers the provider with ONNX Runtime. Every operator of the registry is a node of
the domain ai.pto. Sessions with the provider know these nodes; `register(options)` makes them known
to other sessions, and `translation_table()` lets torch.onnx.export write them. Python plans when a
session is made, and leaves to ONNX Runtime what that runs faster: see `explain(model)` and
config.onnxruntime_takes. No Python runs in a call whose kernel exists. Thread safety: several
threads may make and run sessions.
"""

import importlib
import sys
from typing import Any

import onnxruntime
from pto.adapters.onnxruntime import costs, library, plan
from pto.adapters.onnxruntime.export import translation_table
from pto.adapters.onnxruntime.table import TABLE
from pto.config import config

__all__ = ["PROVIDER", "describe", "explain", "providers", "register", "session",
           "translation_table"]  # fmt: skip

PROVIDER = "PtoExecutionProvider"
_KNOWN = "pto.operators"  # an entry of options that know ai.pto
providers = (PROVIDER, "CPUExecutionProvider")


def register(options: onnxruntime.SessionOptions) -> onnxruntime.SessionOptions:
    """Makes the nodes of ai.pto known to sessions with these options, and returns the options.

    A second call does nothing.
    """
    if not _knows(options):
        options.add_session_config_entry(_KNOWN, "1")
        options.register_custom_ops_library(library.PATH)
    return options


def session(model: object, options: onnxruntime.SessionOptions | None = None, **kwargs: object):
    """onnxruntime.InferenceSession with our provider first.

    Raises InvalidValue for a broken table of costs, whatever ONNX Runtime would fall back to.
    """
    _check_costs()
    return onnxruntime.InferenceSession(model, options, providers=providers, **kwargs)


def explain(model: object, options: onnxruntime.SessionOptions | None = None) -> str:
    """Makes a session, and says which nodes became kernels, and why stock runs others that could.

    A line for each group of nodes, "kernel: ..." or "stock: ...: why".
    """
    decisions: list[plan.Decision] = []
    token = plan.heard.set(decisions)
    try:
        session(model, options)
    finally:
        plan.heard.reset(token)
    return "\n".join(map(str, decisions))


def describe() -> str:
    """One line: the version served, and how."""
    return f"ONNX Runtime {onnxruntime.__version__}, provider {PROVIDER}, operators in ai.pto"


def _know_operators_with_the_provider() -> None:
    """Makes sessions that name the provider know ai.pto.

    ONNX Runtime adds the named providers only after it has read the model, so this wraps the method
    of its sessions that registers providers' operators.
    """
    kind = onnxruntime.InferenceSession
    original = kind._register_ep_custom_ops

    def register_operators(self: object, options: object, names: object, *rest: object) -> None:
        original(self, options, names, *rest)
        if PROVIDER in names:
            _check_costs()
            register(options)

    kind._register_ep_custom_ops = register_operators


def _check_costs_with_the_devices() -> None:
    """Checks the table of costs for options that name the provider by its devices, too."""
    kind = onnxruntime.SessionOptions
    original = kind.add_provider_for_devices

    def add_provider_for_devices(self: object, devices: Any, *rest: Any) -> None:
        if any(device.ep_name == PROVIDER for device in devices):
            _check_costs()
        original(self, devices, *rest)

    kind.add_provider_for_devices = add_provider_for_devices


def _check_costs() -> None:
    """Raises InvalidValue for a broken table of costs, which the planner could not: ONNX Runtime
    logs what the planner raises, and runs all nodes with stock."""
    if config.onnxruntime_takes == "faster":
        costs.table()


def _knows(options: object) -> bool:
    try:
        return options.get_session_config_entry(_KNOWN) == "1"
    except RuntimeError:
        return False


importlib.import_module("pto.ops")  # the operator library defines itself
importlib.import_module("pto.models")
for _type, _row in TABLE.items():
    if _row.view is not None:
        library.add_view(_type, _row.first, _row.last, _row.view)
library.set_planner(plan.plan, plan.build)
onnxruntime.register_execution_provider_library(PROVIDER, library.PATH)
_know_operators_with_the_provider()
_check_costs_with_the_devices()
sys.modules.setdefault("pto.onnxruntime", sys.modules[__name__])
