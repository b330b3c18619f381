# SPDX-License-Identifier: Apache-2.0
"""pto.aten.record: who ran each call, who refused it and why, what failed."""

import threading

import pytest
import torch

import pto
import pto.aten
from pto.aten import wins
from pto.aten.recording import Call

pytestmark = pytest.mark.usefixtures("aten_parts")
X, DOUBLES = torch.linspace(-2, 2, 48).view(6, 8), torch.linspace(0, 1, 5, dtype=torch.float64)


@pytest.fixture(autouse=True)
def cells(monkeypatch):
    """exp takes over in f32; nothing else was measured."""
    cell = {"exp": {"float32": [2.0]}, "embedding": {"float32": [2.0]}}
    monkeypatch.setattr(wins, "table", lambda: {wins.target(): cell})
    pto.config.measured = pto.config.measured  # calls ask again
    yield
    monkeypatch.undo()
    pto.config.measured = pto.config.measured


def counted(seen):
    return {(call.overload, call.ran): count for call, count in seen.calls.items()}


def test_calls_are_counted_by_who_ran_them_and_why_others_did_not():
    for _ in range(2):  # later calls skip what these did
        pto.aten.exp(X), pto.aten.sin(X), pto.aten.linalg_qr(X)
    with pto.aten.record() as seen:
        for _ in range(3):
            pto.aten.exp(X), pto.aten.sin(X), pto.aten.linalg_qr(X)
        pto.aten.exp(X, slot=8)
    pto.aten.exp(X)  # not seen
    assert counted(seen) == {
        ("exp", "0 tile"): 3, ("sin", "8 aten"): 3, ("linalg_qr", "8 aten"): 3, ("exp", "8 aten"): 1
    }  # fmt: skip
    (sin,) = (call for call in seen.calls if call.overload == "sin")
    assert sin.refused == (("0 tile", wins._UNMEASURED),)
    assert Call("exp", "8 aten", (("0 tile", "another slot was asked for"),), "") in seen.calls
    assert "      3 sin                          8 aten\n        not 0 tile: nobody" in str(seen)
    assert str(seen).endswith("3 of 10 calls ran on our kernels")


def test_calls_of_pytorch_are_seen_where_rows_may_take_them():
    with pto.aten.enable():
        torch.exp(X), torch.exp(DOUBLES)
        with pto.aten.record() as seen:
            for _ in range(2):
                torch.exp(X), torch.exp(DOUBLES), pto.aten.exp(DOUBLES)
        torch.exp(X)
    assert counted(seen) == {("exp", "0 tile"): 2, ("exp", "8 aten"): 4}


def test_reasons_are_those_before_the_call_wrote():
    with pto.aten.record() as seen:
        pto.aten.exp.out(X, out=torch.empty(0))
    ((call, _),) = seen.calls.items()
    assert call.refused == (("0 tile", "out has no elements, and may have to be resized"),)


def test_what_fails_is_counted_with_its_error():
    with pto.aten.record() as seen, pytest.raises(RuntimeError):
        pto.aten.embedding(X, torch.tensor([6]), slot=0)
    ((call, count),) = seen.calls.items()
    assert count == 1 and call.ran == "0 tile" and "6" in call.failed
    assert f"failed: {call.failed}" in str(seen)


def test_a_shadow_and_recordings_see_the_same_calls():
    with pto.aten.record() as outer, pto.aten.shadow() as shadow, pto.aten.record() as inner:
        pto.aten.exp(X)
        with pto.aten.enable():
            torch.exp(X), torch.exp(X)
    assert counted(outer) == counted(inner) == {("exp", "0 tile"): 3} and shadow.calls == 3


def test_a_recording_sees_its_own_thread_alone():
    with pto.aten.record() as seen:
        other = threading.Thread(target=lambda: pto.aten.exp(X))
        other.start()
        other.join()
    assert not seen.calls and str(seen) == "0 of 0 calls ran on our kernels"
