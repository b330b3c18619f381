# SPDX-License-Identifier: Apache-2.0
from typing import Any

from pto.adapters.jax import *  # noqa: F403
from pto.models import *  # noqa: F403
from pto.ops import *  # noqa: F403

def __getattr__(name: str) -> Any: ...  # operators of users
