# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime in the matrix of modes: models in bytes, of any sizes."""

from typing import Any

import numpy as np

from pto.testing.cases import Case, adapter_record, members
from pto.testing.expected import gradient_case
from pto.testing.framework import Framework, Skipped, needs_gradient


class OnnxRuntime(Framework):
    name, module = "ONNX Runtime", "onnxruntime"

    def __init__(self) -> None:
        import onnx
        import onnxruntime

        import pto.onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.onnx, self.ort, self.face = onnx, onnxruntime, pto.onnxruntime

    def model(self, case: Case) -> tuple[Any, dict]:
        record = adapter_record(case.operator)
        values = record.bind(case.args, case.kwargs)
        types = self.onnx.helper.np_dtype_to_tensor_dtype
        names, infos, feeds = [], [], {}
        for a, value in zip(record.arguments, values, strict=True):
            if not a.is_tensor:
                continue
            if value is None:  # holds its place
                names.append("")
                continue
            for i, t in enumerate(members(value)):
                name = f"{a.name}{i}"
                names.append(name)
                feeds[name] = t
                sizes = [f"{name}_{axis}" for axis in range(t.ndim)]
                infos.append(self.onnx.helper.make_tensor_value_info(name, types(t.dtype), sizes))
        attributes = {
            a.name: int(v) if isinstance(v, bool) else v
            for a, v in zip(record.arguments, values, strict=True)
            if not a.is_tensor and v is not None
        }
        results = case.results()
        outputs = [
            self.onnx.helper.make_tensor_value_info(f"out{i}", types(t.dtype), None)
            for i, t in enumerate(results)
        ]
        node = self.onnx.helper.make_node(
            record.name, names, [o.name for o in outputs], domain="ai.pto", **attributes
        )
        graph = self.onnx.helper.make_graph([node], "case", infos, outputs)
        opsets = [self.onnx.helper.make_opsetid("", 21), self.onnx.helper.make_opsetid("ai.pto", 1)]
        return self.onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds

    def run(self, case: Case, providers: list[str]) -> list[np.ndarray]:
        model, feeds = self.model(case)
        options = self.face.register(self.ort.SessionOptions())
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=providers)
        if case.dtype == "bf16":
            raise Skipped("ONNX Runtime's Python interface takes no bfloat16 arrays")
        return session.run(None, feeds)

    def provider(self, case: Case) -> list[np.ndarray]:
        return self.run(case, list(self.face.providers))

    def custom_operator(self, case: Case) -> list[np.ndarray]:
        return self.run(case, ["CPUExecutionProvider"])

    def gradient_operator(self, case: Case) -> list[np.ndarray]:
        """A model of the gradient operator."""
        needs_gradient(case)
        return self.provider(gradient_case(case))

    modes = {
        "provider": provider, "custom operator": custom_operator,
        "gradient operator": gradient_operator, "threads": Framework.threads,
    }  # fmt: skip
    full = ("provider",)
