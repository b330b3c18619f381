# SPDX-License-Identifier: Apache-2.0
"""The processes that tests fork from one that has imported torch."""

import os

import children
import pytest


def test_a_child_that_hangs_is_killed_and_the_next_one_answers_for_itself():
    assert children.run("-c", "print(1)").stdout == "1\n"
    origin = children._origin(os.getpid())
    origin.channel.settimeout(0.5)
    with pytest.raises(TimeoutError):
        children.run("-c", "import time; time.sleep(1000)")
    assert origin.process.wait(10) == -9
    assert children.run("-c", "print(2)").stdout == "2\n"
