# SPDX-License-Identifier: Apache-2.0
"""`import torch` alone makes the npu device: PyTorch calls this entry point of the package.

The entry point never compiles and never raises: it prints once what is missing.
TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches it off.
"""

import sys


def autoload() -> None:
    """Loads the npu device where it is built and free; else says how to get it."""
    try:
        from pto.adapters.torch import activation
    except Exception as error:  # noqa: BLE001 importing torch must not fail for an adapter
        print(f"OpenPTO: the PyTorch adapter cannot be loaded: {error}", file=sys.stderr)
        return
    if activation.is_active():
        return
    if reason := activation.obstacle():
        print(f"OpenPTO: no npu device of its own: {reason}", file=sys.stderr)
    else:
        print(
            "OpenPTO: the npu device is not built for this PyTorch; to build it: "
            "python -m pto adapters build torch",
            file=sys.stderr,
        )
