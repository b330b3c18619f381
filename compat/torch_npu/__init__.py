# SPDX-License-Identifier: Apache-2.0
"""`import torch_npu` for programs that say so: the device npu of OpenPTO.

    sys.path.append(pto.build_config.compat_dir())  # what `pto config --compat` prints
    import torch, torch_npu
    torch.randn(4, 4, device="npu")

Refused where the real package is installed: a process has one device named npu. A format says how a
chip keeps a matrix; here it has no meaning, and every tensor has the plain one.
"""

import enum
import importlib.machinery
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

from pto.errors import Failure

_HERE = Path(__file__).resolve().parent
_elsewhere = importlib.machinery.PathFinder.find_spec(
    __name__, [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE.parent]
)
if _elsewhere is not None and _elsewhere.origin is not None:  # a bare folder is no package
    raise Failure(
        f"torch_npu is installed, at {_elsewhere.origin}",
        "a process has one device named npu, and this spelling would hide the installed one",
        f"take {_HERE.parent} from the path, or uninstall torch_npu",
    )

import pto.torch.npu  # noqa: E402, F401

npu = torch.npu
npu.config = SimpleNamespace(allow_internal_format=True)  # programs set it


class Format(enum.IntEnum):
    """Formats of tensors, by their numbers there."""

    NCHW, NHWC, ND, NC1HWC0 = 0, 1, 2, 3
    FRACTAL_Z, FRACTAL_NZ = 4, 29


def npu_format_cast(x: torch.Tensor, acl_format: int, **_: object) -> torch.Tensor:
    """x itself: a format is a hint."""
    return x


def npu_format_cast_(x: torch.Tensor, acl_format: int) -> torch.Tensor:
    """x itself."""
    return npu_format_cast(x, acl_format)


def get_npu_format(x: torch.Tensor) -> Format:
    """The plain format."""
    return Format.ND
