# SPDX-License-Identifier: Apache-2.0
"""pto.testing: what pto's own operators are tested with, for operators of users.

    def test_squash():
        pto.testing.check(Squash)          # or print(...): a table of what was compared

    pto.testing.assert_close(got, want, {pto.f32: 1e-6})    # says ULP and multiples of the bound

`check.py` says what is compared; `cases.py` which calls are made; `close.py` measures errors;
`framework.py` is the base of each framework and its modes. Nothing here is loaded by `import pto`.
Thread safety: checks belong to one thread; they start threads of their own.
"""

from pto.testing.check import Report, check
from pto.testing.close import Closeness, assert_close

__all__ = ["Closeness", "Report", "assert_close", "check"]
