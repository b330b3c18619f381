# SPDX-License-Identifier: Apache-2.0
"""`import habana_frameworks.torch.core` for programs that say so: the device npu of OpenPTO.

    sys.path.append(pto.build_config.compat_dir())  # what `pto config --compat` prints
    import habana_frameworks.torch.core as htcore

Tensors lie on npu, which is the device of custom operators here.
"""

import pto.torch.npu  # noqa: F401 makes the device


def mark_step() -> None:
    """Does nothing: operators run when they are called, none waits for a graph to be complete."""
