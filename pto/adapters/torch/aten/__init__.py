# SPDX-License-Identifier: Apache-2.0
"""ATen's calls for pto.aten: importing this makes the installed PyTorch its library.

It also puts our rows into their slots, since the forms of a row follow from PyTorch's schemas.
"""

from pto.adapters.torch.aten.dispatcher import Dispatcher
from pto.aten.records import register
from pto.aten.rows import install
from pto.aten.table import ROWS

register(Dispatcher())
install(ROWS)
