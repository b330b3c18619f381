# SPDX-License-Identifier: Apache-2.0
"""Python kernels whose errors are hard to tell, or that nobody runs."""

import os
import threading
import time


class Unsendable(Exception):
    """Cannot be pickled, and says what UTF-8 cannot hold."""

    def __init__(self):
        self.lock = threading.Lock()

    def __str__(self):
        return "half a pair: \ud800, nothing: \x00"


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def unsendable(x):
    raise Unsendable


def speechless(x):
    raise Speechless


def long_winded(x):
    raise ValueError("begins" + "é" * 100_000 + "ends")


def bottomless(x):
    bottomless(x)


def leaves(x):
    raise SystemExit("left")


def generates(x):
    yield x


async def awaits(x):
    x[...] = 1


def forks(x):
    """Its child returns too, after the task has ended."""
    if child := os.fork():
        x[0] = child
    else:
        time.sleep(0.1)
