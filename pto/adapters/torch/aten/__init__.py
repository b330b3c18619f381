# SPDX-License-Identifier: Apache-2.0
"""ATen's calls for pto.aten: loading this makes the installed PyTorch its library."""

from pto.adapters.torch.aten.dispatcher import Dispatcher
from pto.aten import records

records.register(Dispatcher())
