# SPDX-License-Identifier: Apache-2.0
"""How the conformance matrix calls each framework: one class each, one method for each mode.

A mode takes a Case and returns its results as NumPy arrays, flat; it raises Skipped with a reason
where the framework has no such thing.
"""

import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.cases import Case, flat, mapped, members, record_of, wanted

from pto.language.samples import numpy_type


class Skipped(Exception):
    """Why a cell of the matrix has no case."""


def _is_int_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


class Framework:
    """`modes`: name -> method; `full`: those that run on every type and variant."""

    name = ""
    module = ""
    modes: dict[str, Callable[[Any, Case], list[np.ndarray]]] = {}
    full: tuple[str, ...] = ()

    @classmethod
    def is_installed(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None


def in_threads(run: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """The results of one of four threads that run at once; all must agree."""
    found: list[Any] = [None] * 4

    def work(place: int) -> None:
        try:
            found[place] = run()
        except Exception as error:
            found[place] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        if isinstance(one, Exception):
            raise one
        assert [t.tobytes() for t in one] == [t.tobytes() for t in found[0]]
    return found[0]


def needs_gradient(case: Case) -> None:
    if record_of(case.operator).gradient < 0:
        raise Skipped("the operator has no gradient")
    if case.dtype == "i32":
        raise Skipped("integers have no gradient")


class NumPy(Framework):
    name, module = "NumPy", "numpy"

    def eager(self, case: Case) -> list[np.ndarray]:
        return case.results()

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(case.results)

    modes = {"eager": eager, "threads": threads}
    full = ("eager",)


class PyTorch(Framework):
    name, module = "PyTorch", "torch"
    device = "cpu"

    def __init__(self) -> None:
        import pto.torch  # noqa: F401
        import torch

        self.torch = torch

    def tensor(self, x: np.ndarray) -> Any:
        if any(s < 0 for s in x.strides):
            raise Skipped("PyTorch has no negative strides")
        x = x if x.flags.writeable else np.lib.stride_tricks.as_strided(
            np.array(x[:1]), x.shape, x.strides)  # fmt: skip
        if x.dtype.name == "bfloat16":
            tensor = self.torch.from_numpy(x.view(np.int16)).view(self.torch.bfloat16)
        else:
            tensor = self.torch.from_numpy(x)
        return tensor.to(self.device)

    def array(self, tensor: Any) -> np.ndarray:
        tensor = tensor.detach().cpu()
        if tensor.dtype == self.torch.bfloat16:
            return tensor.view(self.torch.int16).numpy().view(numpy_type("bf16"))
        return tensor.numpy()

    def function(self, case: Case) -> Callable:
        return getattr(self.torch.ops.pto, case.operator.name).default

    def call(self, case: Case, function: Callable) -> list[np.ndarray]:
        record = record_of(case.operator)
        args = mapped(self.tensor, case.args)
        results = function(*args, **case.kwargs)
        if record.mutates:
            results = args[0]
        return [self.array(t) for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.call(case, self.function(case))

    def compiled(self, case: Case, backend: str) -> list[np.ndarray]:
        operator = self.function(case)
        constants = {i: a for i, a in enumerate(case.args) if isinstance(a, int | float | str)}
        attributes = {i: a for i, a in enumerate(case.args) if _is_int_list(a)} | constants

        def of_tensors(*args: Any, **_: Any) -> Any:
            """Attributes are constants of the compiled function."""
            filled = [attributes.get(i, a) for i, a in enumerate(args)]
            return operator(*filled, **case.kwargs)

        function = self.torch.compile(of_tensors, backend=backend, fullgraph=True, dynamic=True)
        try:  # numbers of a closure are constants, as literals are
            with self.torch._dynamo.config.patch(specialize_int=True):
                return self.call(case, function)
        finally:
            self.torch._dynamo.reset()

    def aot_eager(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "aot_eager")

    def inductor(self, case: Case) -> list[np.ndarray]:
        return self.compiled(case, "inductor")

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        args = mapped(self.tensor, case.args)
        inputs = [
            t.requires_grad_() for place in wanted(case) for t in members(args[place])
        ]  # fmt: skip
        results = [t for t in flat(self.function(case)(*args, **case.kwargs)) if t.requires_grad]
        ones = [self.torch.ones_like(t) for t in results]
        return [self.array(d) for d in self.torch.autograd.grad(results, inputs, ones)]

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {
        "eager": eager, "gradient": gradient, "aot_eager": aot_eager, "inductor": inductor,
        "threads": threads,
    }  # fmt: skip
    full = ("eager", "gradient")


class Npu(PyTorch):
    name, module, device = "PyTorch npu", "torch", "npu"
    modes = {
        "eager": PyTorch.eager, "gradient": PyTorch.gradient, "aot_eager": PyTorch.aot_eager,
    }  # fmt: skip

    @classmethod
    def is_installed(cls) -> bool:
        if not super().is_installed():
            return False
        import pto.torch  # noqa: F401
        import torch

        return hasattr(torch, "npu")


class Jax(Framework):
    name, module = "JAX", "jax"

    def __init__(self) -> None:
        import jax
        import pto.jax

        self.jax, self.face = jax, pto.jax
        jax.config.update("jax_enable_x64", True)

    def function(self, case: Case) -> Callable:
        function = getattr(self.face, case.operator.name)
        return lambda *args: function(*args, **case.kwargs)

    def tensors(self, case: Case) -> tuple:
        return mapped(self.jax.numpy.asarray, case.args)

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [np.asarray(t) for t in self.jax.tree.leaves(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def jit(self, case: Case) -> list[np.ndarray]:
        function, args = self.function(case), self.tensors(case)
        places = [
            i
            for i, a in enumerate(args)
            if not isinstance(a, int | float | str) and not _is_int_list(a)
        ]

        def of_arrays(*arrays: Any) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            return function(*filled)

        return self.leaves(self.jax.jit(of_arrays)(*(args[i] for i in places)))

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        args, places = self.tensors(case), wanted(case)
        function, outputs = self.function(case), record_of(case.operator).outputs

        def of_wanted(*arrays: Any) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            results = function(*filled)
            results = (results,) if len(outputs) == 1 else tuple(results)
            return [r for r, o in zip(results, outputs, strict=True) if o.is_differentiable]

        results, pull = self.jax.vjp(of_wanted, *(args[i] for i in places))
        return self.leaves(pull(self.jax.tree.map(self.jax.numpy.ones_like, results)))

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {"eager": eager, "jit": jit, "gradient": gradient, "threads": threads}
    full = ("eager",)


class TensorFlow(Framework):
    name, module = "TensorFlow", "tensorflow"

    def __init__(self) -> None:
        import pto.tensorflow
        import tensorflow

        from pto.adapters.tensorflow import build

        build.build()
        self.tf, self.face = tensorflow, pto.tensorflow

    def function(self, case: Case) -> Callable:
        function = getattr(self.face, case.operator.name)
        return lambda *args: function(*args, **case.kwargs)

    def tensors(self, case: Case) -> tuple:
        return mapped(self.tf.constant, case.args)

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [t.numpy() for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    def graph(self, case: Case) -> list[np.ndarray]:
        """A tf.function of tensors with unknown sizes."""
        function, args = self.function(case), self.tensors(case)
        tensors = [t for a in args for t in members(a) if isinstance(t, self.tf.Tensor)]
        unknown = [self.tf.TensorSpec([None] * t.ndim, t.dtype) for t in tensors]

        def of_tensors(*given: Any) -> Any:
            rest = iter(given)

            def next_of(a: Any) -> Any:
                return next(rest) if isinstance(a, self.tf.Tensor) else a

            return function(
                *([next_of(t) for t in a] if isinstance(a, list) else next_of(a) for a in args)
            )

        traced = self.tf.function(of_tensors, input_signature=unknown, autograph=False)
        return self.leaves(traced(*tensors))

    def gradient(self, case: Case) -> list[np.ndarray]:
        needs_gradient(case)
        args = self.tensors(case)
        inputs = [t for place in wanted(case) for t in members(args[place])]
        with self.tf.GradientTape() as tape:
            tape.watch(inputs)
            results = [t for t in flat(self.function(case)(*args)) if t.dtype.is_floating]
        ones = [self.tf.ones_like(t) for t in results]
        return self.leaves([self.tf.convert_to_tensor(d) for d in
                            tape.gradient(results, inputs, ones)])  # fmt: skip

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.eager(case))

    modes = {"eager": eager, "graph": graph, "gradient": gradient, "threads": threads}
    full = ("eager",)


class OnnxRuntime(Framework):
    name, module = "ONNX Runtime", "onnxruntime"

    def __init__(self) -> None:
        import onnx
        import onnxruntime
        import pto.onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.onnx, self.ort, self.face = onnx, onnxruntime, pto.onnxruntime

    def model(self, case: Case) -> tuple[Any, dict]:
        record = record_of(case.operator)
        values = record.bind(case.args, case.kwargs)
        types = self.onnx.helper.np_dtype_to_tensor_dtype
        names, infos, feeds = [], [], {}
        for a, value in zip(record.arguments, values, strict=True):
            if not a.is_tensor:
                continue
            for i, t in enumerate(members(value) if value is not None else []):
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

    def threads(self, case: Case) -> list[np.ndarray]:
        return in_threads(lambda: self.provider(case))

    modes = {"provider": provider, "custom operator": custom_operator, "threads": threads}
    full = ("provider",)


class MindSpore(Framework):
    name, module = "MindSpore", "mindspore"

    def __init__(self) -> None:
        import mindspore
        import pto.mindspore

        self.ms, self.face = mindspore, pto.mindspore

    def function(self, case: Case) -> Callable:
        function = getattr(self.face, case.operator.name)
        return lambda *args: function(*args, **case.kwargs)

    def tensors(self, case: Case) -> tuple:
        if case.dtype == "bf16":
            raise Skipped("MindSpore makes no bfloat16 tensor of an array")
        return mapped(lambda x: self.ms.Tensor(np.asarray(x, order="C")), case.args)

    def leaves(self, results: Any) -> list[np.ndarray]:
        return [t.asnumpy() for t in flat(results)]

    def eager(self, case: Case) -> list[np.ndarray]:
        return self.leaves(self.function(case)(*self.tensors(case)))

    modes = {"eager": eager}
    full = ("eager",)


FRAMEWORKS = (NumPy, PyTorch, Npu, Jax, TensorFlow, OnnxRuntime, MindSpore)
