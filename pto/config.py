# SPDX-License-Identifier: Apache-2.0
"""pto.config: the few settings. The environment gives their first values.

    pto.config.cxx = "clang++"      # PTO_CXX: the compiler; "" takes the first that is found
    pto.config.cache_dir = "..."    # PTO_CACHE_DIR: compiled kernels
    pto.config.tuned = "a.json"     # PTO_TUNED: files of pto.tune() of other machines, by ":"
    pto.config.target = "avx2"      # PTO_TARGET: portable, avx2, avx512; "" is this machine's
    pto.config.threads = 1          # PTO_NUM_THREADS: of our own pool
    pto.config.weights = "compared" # PTO_WEIGHTS: sampled, compared, never: how packed weights
                                    # are compared with the tensor at each call
    pto.config.matmul_precision = "high"  # PTO_MATMUL_PRECISION: highest, high, medium: what
                                    # products of f32 may be made of
    pto.config.torch_attention = True   # PTO_TORCH_ATTENTION=1: PyTorch's own
                                    # scaled_dot_product_attention runs on our kernels
    pto.config.measured = True      # PTO_MEASURED=1: what pto.aten.measure() found on this machine
                                    # says which of our kernels take ATen's calls
    pto.config.by_size = True       # PTO_BY_SIZE=1: they also take calls of sizes where they were
                                    # measured to be faster, so that results depend on the batch
    pto.config.onnxruntime_takes = "all"  # PTO_ONNXRUNTIME_TAKES: faster, all: the nodes that new
                                    # sessions of ONNX Runtime get kernels of ours for
    pto.config.interpret = True     # PTO_INTERPRET=1: calls of jitted functions run on the
                                    # interpreter, step by step; pto.print, pto.breakpoint
    pto.config.dump = print         # sees (stage, text) of each jitted function that is compiled

A setting counts from the next compilation, `threads`, `weights`, `matmul_precision`, `interpret`
and `torch_attention` from the next call.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from pto import _core
from pto.errors import InvalidType, InvalidValue, unknown_attribute

TARGETS = ("", "portable", "avx2", "avx512")
_WEIGHTS = ("sampled", "compared", "never")
_TAKES = ("faster", "all")
PRECISIONS = ("highest", "high", "medium")
_NAMES = ("cxx", "cache_dir", "tuned", "target", "threads", "weights", "matmul_precision",
          "torch_attention", "measured", "by_size", "onnxruntime_takes",
          "interpret", "dump")  # fmt: skip


class Config:
    """The settings of this process; one object, `pto.config`. Unknown names are errors."""

    __slots__ = ("_dump",)

    def __init__(self) -> None:
        self._dump: Callable[[str, str], object] | None = None

    @property
    def cxx(self) -> str:
        """Path or name of the C++ compiler."""
        return os.environ.get("PTO_CXX", "")

    @cxx.setter
    def cxx(self, value: str) -> None:
        _set("cxx", "PTO_CXX", value)

    @property
    def cache_dir(self) -> str:
        """Folder of compiled kernels; "" is openpto in the user's cache folder."""
        return os.environ.get("PTO_CACHE_DIR", "")

    @cache_dir.setter
    def cache_dir(self, value: str) -> None:
        _set("cache_dir", "PTO_CACHE_DIR", value)

    @property
    def tuned(self) -> str:
        """Files of options that pto.tune() wrote, which are read behind this machine's own."""
        return os.environ.get("PTO_TUNED", "")

    @tuned.setter
    def tuned(self, value: str) -> None:
        _set("tuned", "PTO_TUNED", value)

    @property
    def target(self) -> str:
        """The instructions that kernels use."""
        return os.environ.get("PTO_TARGET", "")

    @target.setter
    def target(self, value: str) -> None:
        _check_choice(
            "target", value, TARGETS,
            "a target names the instructions that compiled kernels may use",
            'assign "portable", "avx2", "avx512", or "" for the best of this machine',
        )  # fmt: skip
        _set("target", "PTO_TARGET", value)

    @property
    def threads(self) -> int:
        """Threads that a call may use, the caller included; a number above that of the cores counts
        as that of the cores."""
        return _core.num_threads()

    @threads.setter
    def threads(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
            raise InvalidValue(
                f"config.threads is {value!r}",
                "threads counts the threads of a call, the caller included",
                "assign a number from 1 to the number of cores, as which a larger one counts",
            )
        _core.set_num_threads(value)

    @property
    def weights(self) -> str:
        """How a weight is compared with its packed copy at each call, beside its version."""
        return _core.weight_check()

    @weights.setter
    def weights(self, value: str) -> None:
        _check_choice(
            "weights", value, _WEIGHTS,
            "a weight that changed must not be read from its packed copy",
            'assign "sampled" (64 elements), "compared" (all), or "never" to pack none',
        )  # fmt: skip
        _core.set_weight_check(value)

    @property
    def matmul_precision(self) -> str:
        """The error that products of f32 may have where that is faster: that of f32, of 16 bits, or
        of operands rounded to bf16. The names are PyTorch's, whose own switch this is not.
        """
        return _core.matmul_precision()

    @matmul_precision.setter
    def matmul_precision(self, value: str) -> None:
        _check_choice(
            "matmul_precision", value, PRECISIONS,
            "products of f32 may be made of parts of bf16 where that is faster",
            'assign "highest" (the error of f32), "high" (16 bits) or "medium" (bf16)',
        )  # fmt: skip
        _core.set_matmul_precision(value)

    @property
    def torch_attention(self) -> bool:
        """Whether PyTorch's scaled_dot_product_attention runs on our kernels where they take it;
        without pto.torch it never does. True loads pto.torch.
        """
        return os.environ.get("PTO_TORCH_ATTENTION", "") == "1"

    @torch_attention.setter
    def torch_attention(self, value: bool) -> None:
        _check_bool("torch_attention", value, "PyTorch's attention runs on our kernels or its own")
        if value or "pto.torch" in sys.modules:
            importlib.import_module("pto.torch").use_attention(value)
        _set("torch_attention", "PTO_TORCH_ATTENTION", "1" if value else "")

    @property
    def measured(self) -> bool:
        """Whether what pto.aten.measure() found on this machine goes before the package's table."""
        return os.environ.get("PTO_MEASURED", "") == "1"

    @measured.setter
    def measured(self, value: bool) -> None:
        why = "the cells of this machine count, or those of the package alone"
        _check_bool("measured", value, why)
        _set("measured", "PTO_MEASURED", "1" if value else "")

    @property
    def by_size(self) -> bool:
        """Whether rows of pto.aten take over at sizes where they were measured to be faster, if not
        at all: a result may then depend on the size of a batch."""
        return os.environ.get("PTO_BY_SIZE", "") == "1"

    @by_size.setter
    def by_size(self, value: bool) -> None:
        _check_bool("by_size", value, "a row takes over from a size on, or for all sizes or none")
        _set("by_size", "PTO_BY_SIZE", "1" if value else "")

    @property
    def onnxruntime_takes(self) -> str:
        """Which nodes our provider takes of a session of ONNX Runtime: those that it runs faster
        than ONNX Runtime does, or all that it can run.
        """
        return os.environ.get("PTO_ONNXRUNTIME_TAKES", "") or "faster"

    @onnxruntime_takes.setter
    def onnxruntime_takes(self, value: str) -> None:
        _check_choice(
            "onnxruntime_takes", value, _TAKES,
            "a node stays with ONNX Runtime where that was measured to be faster",
            'assign "faster", or "all" for every node that has a kernel',
        )  # fmt: skip
        _set("onnxruntime_takes", "PTO_ONNXRUNTIME_TAKES", value)

    @property
    def interpret(self) -> bool:
        """Whether calls of jitted functions run on the interpreter, step by step and slowly: the
        results are those of compiled code within its bounds, those of integers exactly. Calls that
        PyTorch makes operators of (gradients, transforms, other devices) stay compiled.
        """
        return _core.interprets_calls()

    @interpret.setter
    def interpret(self, value: bool) -> None:
        _check_bool("interpret", value, "calls are compiled, or run step by step")
        _core.set_interprets_calls(value)
        _tell()

    @property
    def dump(self) -> Callable[[str, str], object] | None:
        """Called with (stage, text) for each stage of a jitted function; None for nothing."""
        return self._dump

    @dump.setter
    def dump(self, value: Callable[[str, str], object] | None) -> None:
        if value is not None and not callable(value):
            raise InvalidType(
                f"config.dump is {value!r}",
                "pto calls it with (stage, text)",
                "assign a function of both",
            )
        self._dump = value

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {getattr(self, name)!r}" for name in _NAMES)

    def __dir__(self) -> tuple[str, ...]:
        return _NAMES

    if not TYPE_CHECKING:  # type checkers would take every name

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("pto.config", name, _NAMES)

        def __setattr__(self, name: str, value: object) -> None:
            if name not in (*_NAMES, *self.__slots__):
                raise unknown_attribute("pto.config", name, _NAMES)
            object.__setattr__(self, name, value)


def _check_choice(name: str, value: object, known: tuple[str, ...], why: str, fix: str) -> None:
    if not isinstance(value, str) or value not in known:
        raise InvalidValue(f"config.{name} is {value!r}", why, fix)


def _check_bool(name: str, value: object, why: str) -> None:
    if not isinstance(value, bool):
        raise InvalidType(f"config.{name} is {value!r}", why, "assign True or False")


on_change: list[Callable[[], None]] = []  # called when a setting changed that plans of calls hold


def _tell() -> None:
    for told in on_change:
        told()


def _set(name: str, variable: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike):
        raise InvalidType(
            f"config.{name} is {value!r}", "the value of this name is a string", "assign a str"
        )
    if "\0" in os.fspath(value):
        raise InvalidValue(
            f"config.{name} is {value!r:.60}", "the environment holds no text with a NUL in it",
            "take the NUL out",
        )  # fmt: skip
    if os.fspath(value):
        os.environ[variable] = os.fspath(value)
    else:
        os.environ.pop(variable, None)
    _tell()


def _check_environment() -> None:
    """Raises InvalidValue for a first value that its setting would refuse."""
    choices = {"PTO_WEIGHTS": _WEIGHTS, "PTO_MATMUL_PRECISION": PRECISIONS,
               "PTO_ONNXRUNTIME_TAKES": _TAKES}  # fmt: skip
    flags = ("PTO_TORCH_ATTENTION", "PTO_MEASURED", "PTO_BY_SIZE", "PTO_INTERPRET")
    choices |= dict.fromkeys(flags, ("0", "1"))
    for variable, value in os.environ.items():
        known = choices.get(variable)
        if known and value and value not in known:
            raise InvalidValue(
                f"{variable} is {value!r}", f"it is one of {', '.join(known)}",
                f"unset {variable}, or set it to one of these",
            )  # fmt: skip


_check_environment()
config = Config()
config.interpret = os.environ.get("PTO_INTERPRET", "") == "1"
