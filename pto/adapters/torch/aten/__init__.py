# SPDX-License-Identifier: Apache-2.0
"""ATen's calls for pto.aten: importing this makes the installed PyTorch its library.

It also puts our rows into their slots, since the forms of a row follow from PyTorch's schemas.
In a forked process PyTorch computes with one thread from then on, as in the workers of its loaders.
"""

import os

import torch
from pto.adapters.torch.aten.dispatcher import Dispatcher
from pto.aten.records import register
from pto.aten.rows import install
from pto.aten.table import ROWS

install(ROWS, found := Dispatcher())
register(found)  # last: until then other threads wait for this import, so that all see rows
# PyTorch's other threads do not survive a fork, and its kernels would wait for them for ever.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
