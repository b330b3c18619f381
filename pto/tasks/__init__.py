# SPDX-License-Identifier: Apache-2.0
"""The runtime: dependent tasks on the cores of this machine (docs/runtime.md), or on several
devices with a worker process each (docs/runtime_host.md)."""

from pto.tasks.arguments import Arg, ParamType, TensorHandle
from pto.tasks.check import CheckReport
from pto.tasks.compilation import compile
from pto.tasks.kernels import KernelSource
from pto.tasks.package import CompiledPackage
from pto.tasks.report import TraceReport
from pto.tasks.run import HostReport, Report, Run
from pto.tasks.runtime import Runtime
from pto.tasks.simulation import Scaling, SimulatedRun

__all__ = [
    "Arg", "CheckReport", "CompiledPackage", "HostReport", "KernelSource", "ParamType", "Report",
    "Run", "Runtime", "Scaling", "SimulatedRun", "TensorHandle", "TraceReport", "compile",
]  # fmt: skip
