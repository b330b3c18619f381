# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403
"""The formulas of the operators of pto.models in plain torch, and arguments for them.

The tests compare with them; the benches time them, as separate operations and compiled.
"""

from bench.model_formulas.deepseek import *
from bench.model_formulas.delta import *
from bench.model_formulas.paged import *
from bench.model_formulas.primitives import *
from bench.model_formulas.routing import *
