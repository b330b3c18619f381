# SPDX-License-Identifier: Apache-2.0
"""The runtime: dependent tasks on the cores of this machine. See docs/runtime.md."""

from pto.runtime.arguments import Arg, ParamType, TensorHandle
from pto.runtime.check import CheckReport
from pto.runtime.compilation import compile
from pto.runtime.kernels import KernelSource
from pto.runtime.package import CompiledPackage
from pto.runtime.report import TraceReport
from pto.runtime.run import HostReport, Report, Run
from pto.runtime.runtime import Runtime
from pto.runtime.simulation import Scaling, SimulatedRun

__all__ = [
    "Arg", "CheckReport", "CompiledPackage", "HostReport", "KernelSource", "ParamType", "Report",
    "Run", "Runtime", "Scaling", "SimulatedRun", "TensorHandle", "TraceReport", "compile",
]  # fmt: skip
