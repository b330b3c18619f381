# SPDX-License-Identifier: Apache-2.0
"""The model in ONNX Runtime, called as PyTorch's is.

    runtime = OnnxRuntime.of(model, tokens)       # None where a package is missing
    runtime.on(threads=2)(**tokens).last_hidden_state
    runtime.quantised().on(threads=2)

The file is exported once and kept in build/. ONNX Runtime optimises it with its own defaults.
"""

import importlib.util
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

PACKAGES = ("onnxruntime", "onnx")


def missing() -> list[str]:
    """The packages that are not installed."""
    return [name for name in PACKAGES if not importlib.util.find_spec(name)]


class OnnxRuntime:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[int, Any] = {}  # by threads

    @staticmethod
    def of(model: Any, tokens: dict[str, torch.Tensor]) -> "OnnxRuntime | None":
        """Exports the model; `tokens` are an example of its inputs."""
        if missing():
            return None
        from examples.demo.export import exported_once

        return OnnxRuntime(exported_once(model, tokens))

    def quantised(self) -> "OnnxRuntime":
        """The model by ONNX Runtime's dynamic quantisation: weights and layers' inputs of int8."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = self._path.with_suffix(".int8.onnx")
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            logging.disable(logging.WARNING)  # it recommends a preparation that changes nothing
            try:
                quantize_dynamic(str(self._path), str(partial), weight_type=QuantType.QInt8)
            finally:
                logging.disable(logging.NOTSET)
            partial.replace(path)
        return OnnxRuntime(path)

    def _session(self, threads: int) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(str(self._path), options, providers=providers)

    def on(self, threads: int) -> Any:
        """The model as a function on that many threads."""
        if threads not in self._sessions:
            self._sessions[threads] = self._session(threads)
        run = self._sessions[threads].run

        def call(**tokens: torch.Tensor) -> SimpleNamespace:
            [hidden] = run(None, {name: tensor.numpy() for name, tensor in tokens.items()})
            return SimpleNamespace(last_hidden_state=torch.from_numpy(hidden))

        return call
