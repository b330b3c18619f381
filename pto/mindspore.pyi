# SPDX-License-Identifier: Apache-2.0
from typing import Any, NoReturn

def nonzero(x: NoReturn, *, out: NoReturn = ...) -> NoReturn: ...  # its size follows from data

from pto.adapters.mindspore import *  # noqa: E402, F403
from pto.models import *  # noqa: E402, F403
from pto.ops import *  # noqa: E402, F403

def __getattr__(name: str) -> Any: ...  # operators of users
