# SPDX-License-Identifier: Apache-2.0
from pto.adapters.jax import *  # noqa: F403
