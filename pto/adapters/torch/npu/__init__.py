# SPDX-License-Identifier: Apache-2.0
"""The npu device of PyTorch: memory of the host, kernels of ours, streams that overlap.

    import torch, pto.torch                       # or pto.torch.npu: an error where it is not built
    x = torch.randn(4, 4, device="npu")

Importing it makes the device; torch.npu (module.py) is its module.
"""

from pto.adapters.torch.activation import activate

activate()
