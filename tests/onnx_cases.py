# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests, run by a session of ONNX Runtime, and sessions for small models."""

import functools
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import pto.onnxruntime

CPU = ["CPUExecutionProvider"]
OURS = list(pto.onnxruntime.providers)
onnxruntime.set_default_logger_severity(4)  # errors reach us as exceptions


NEWEST, NEWEST_FORMAT = 25, 13  # versions of the standard that ONNX Runtime 1.31 knows


@functools.cache
def node_cases():
    """All of ONNX's node tests; those of a newer version than ONNX Runtime's as of its version,
    since most operators have only got more types."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some overflow on purpose
        cases = load_model_tests(kind="node")
    for case in cases:
        case.model.ir_version = min(case.model.ir_version, NEWEST_FORMAT)
        for opset in case.model.opset_import:
            if opset.domain == "":
                opset.version = min(opset.version, NEWEST)
    return cases


def session(model, providers=OURS, **entries):
    """A session that can say which provider got which node."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, value in entries.items():
        options.add_session_config_entry(name.replace("__", "."), value)
    model = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)


def assigned(made):
    """The nodes that our provider got, one list of operator types for each kernel."""
    return [
        [node.op_type for node in part.get_nodes()]
        for part in made.get_provider_graph_assignment_info()
        if part.ep_name == OURS[0]
    ]


def array(value):
    """A value of a case as NumPy has it."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | int | float) else value


def feeds(made, inputs):
    return dict(zip((i.name for i in made.get_inputs()), map(array, inputs), strict=False))


def is_close(got, want, rtol, atol):
    """Equal structure, types and shapes; values within the tolerance."""
    if isinstance(want, list | tuple):
        same = isinstance(got, list | tuple) and len(got) == len(want)
        return same and all(is_close(g, w, rtol, atol) for g, w in zip(got, want, strict=True))
    got, want = np.asarray(got), np.asarray(array(want))
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind in "OUSc":
        return bool((got == want).all())
    if want.dtype == np.float16:  # two units in the last place: between kernels values are f16
        rtol = max(rtol, 2.0**-9)
    return np.allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
    )


def passes(case, made):
    """Says whether a session gives what the case expects."""
    return all(
        is_close(made.run(None, feeds(made, inputs)), list(outputs), case.rtol, case.atol)
        for inputs, outputs in case.data_sets
    )


def passes_in_stock(case):
    """Says whether ONNX Runtime as it is can run the case, and right."""
    try:
        return passes(case, session(case.model, CPU))
    except Exception:
        return False


def with_constants(case, places):
    """The case's model with the inputs at these places of its only node made constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    wanted = {model.graph.node[0].input[p] for p in places if p < len(model.graph.node[0].input)}
    inputs, _ = case.data_sets[0]
    kept = []
    for info, value in zip(case.model.graph.input, inputs, strict=True):
        if info.name in wanted:
            model.graph.initializer.append(
                numpy_helper.from_array(np.asarray(array(value)), info.name)
            )
        else:
            kept.append(info)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    rest = [v for info, v in zip(case.model.graph.input, inputs, strict=True)
            if info.name not in wanted]  # fmt: skip
    return model, rest


def model_of(nodes, inputs, outputs, constants=(), opset=21, domains=()):
    """A model: inputs and outputs as (name, ONNX element type, shape), constants as arrays."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
