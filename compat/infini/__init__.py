# SPDX-License-Identifier: Apache-2.0
"""`import infini.ops` for programs that say so: the operators of PyTorch in the public spelling.

    import pto.compat.infini
    pto.compat.infini.install()
    import infini.ops
    infini.ops.add(a, b, 1.0, out, stream=0, implementation_index=8)

The folder that `python -m pto config --compat` prints, on the path of modules, does the same
without the first two lines. Refused where the real package is installed.
"""

import importlib
import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType

from pto.errors import Failure

_HERE = Path(__file__).resolve().parent


def _installed() -> str | None:
    """Where the real package lies, or None."""
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE.parent]
    package = importlib.machinery.PathFinder.find_spec("infini", others)
    if package is None or package.submodule_search_locations is None:
        return None
    inner = list(package.submodule_search_locations)
    found = importlib.machinery.PathFinder.find_spec("infini.ops", inner)
    return found.origin or inner[0] if found is not None else None


def _refuse_beside_another() -> None:
    place = _installed()
    if place is not None:
        raise Failure(
            f"infini.ops is installed, at {place}",
            "this spelling would hide the installed one",
            f"take {_HERE.parent} from the path, or uninstall the package infini-ops",
        )


def install() -> ModuleType:
    """Makes `import infini.ops` possible in this process, and returns that module.

    Raises Failure where the real package is installed. Doing it again changes nothing.
    """
    _refuse_beside_another()
    ops = importlib.import_module(f"{__name__}.ops")
    sys.modules.setdefault("infini", sys.modules[__name__])
    return sys.modules.setdefault("infini.ops", ops)


if __name__ == "infini":
    _refuse_beside_another()
