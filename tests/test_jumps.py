# SPDX-License-Identifier: Apache-2.0
"""`break` and `continue` in loops of a program: as Python runs the same text over NumPy arrays."""

import importlib.util
import random

import numpy as np
import pytest

import pto

R = np.array([3, -1, 4, 1, -5, 9, 2, 6])
# Bodies of functions of r and out, i64[8]; each returns through n and out.
BODIES = {
    "continue": """
        for i in pto.loop(r.shape[0]):
            if r[i] < 0:
                continue
            out[i] = r[i]
            n = n + 1""",
    "break": """
        for i in pto.loop(r.shape[0]):
            if r[i] > 5:
                break
            out[i] = n
            n = n + r[i]""",
    "both, below an else and another if": """
        for i in pto.loop(1, r.shape[0]):
            if r[i] > 3:
                if n > 3:
                    break
                n = n + 1
            elif r[i] < 0:
                continue
            else:
                n = n + 10
                if r[i] == 1:
                    continue
                n = n + 100
            out[i] = n""",
    "backwards": """
        for i in pto.loop(7, -1, -2):
            if r[i] < 2:
                break
            n = n * 10 + i""",
    "a step from data": """
        for i in pto.loop(0, 8, r[6]):
            if r[i] < 0:
                break
            n = n * 10 + i""",
    "in a loop within a loop": """
        for i in pto.loop(4):
            for j in pto.loop(8):
                if r[j] > i + 2:
                    break
                if r[j] < 0:
                    continue
                n = n + j
            if n > 20:
                break
            out[i] = n""",
    "while": """
        k = 0
        while k < 8 and n < 100:
            k = k + 1
            if r[k - 1] < 0:
                continue
            if r[k - 1] > 8:
                break
            n = n + r[k - 1]
        out[0] = k""",
    "while True": """
        while True:
            if r[n] < 0:
                break
            out[n] = n + 1
            n = n + 1""",
    "while, with an else": """
        k = r[0] % 8
        while k > 0:
            k = k - 1
            if r[k] == 4:
                break
        else:
            n = 5
        while k < 3:
            k = k + 1
            if r[k] == 100:
                break
        else:
            n = n + 70""",
    "known while tracing": """
        debug = False
        for i in pto.loop(8):
            if debug:
                break
            k = 0
            while k < 5:
                k += 1
                if k == 3:
                    break
            n = n + k
            if k != 3:
                continue
            out[i] = n""",
    "in versions": """
        for i in pto.loop(8, unroll_list=[4, 2]):
            if r[i] < 0:
                continue
            n = n * 3 + i""",
    "the last line": """
        for i in pto.loop(8):
            n = n + 1
            if r[i] == 4:
                break
        out[1] = n""",
    "the first line": """
        for i in pto.loop(3):
            n = n + 1
            break
        for i in pto.loop(3):
            n = n + 10
            continue""",
}


class Texts:
    """Random bodies of nested loops with jumps, which come to an end."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loops = 0

    def condition(self, i):
        return self.random.choice([f"r[{i} % 8] > 2", "n % 3 == 1", "m > n",
                                   f"r[(n + {i}) % 8] < 0",
                                   f"{i} == 2", f"n > 40 and r[{i} % 8] > 0"])  # fmt: skip

    def lines(self, depth, i, in_loop):
        made = []
        for _ in range(self.random.randint(1, 3)):
            made += self.statement(depth, i, in_loop)
        return made

    def statement(self, depth, i, in_loop):
        kind = self.random.choice(["n", "m", "out", "if", "if", "for", "while", "jump", "jump"])
        if kind == "jump" and in_loop:
            jump = self.random.choice(["break", "continue"])
            return [f"if {self.condition(i)}:", f"    {jump}"]
        if kind == "if" and depth > 0:
            made = [f"if {self.condition(i)}:", *self.indented(depth - 1, i, in_loop)]
            return [*made, "else:", *self.indented(depth - 1, i, in_loop)]
        if kind in ("for", "while") and depth > 0:
            self.loops += 1
            j = f"i{self.loops}"
            if kind == "for":
                bounds = self.random.choice(["4", "1, r[0] + 2", "5, 0, -2", "r.shape[0]"])
                return [f"for {j} in pto.loop({bounds}):", *self.indented(depth - 1, j, True)]
            return [f"{j} = 0", f"while {j} < 4 and {self.condition(j)}:", f"    {j} = {j} + 1",
                    *self.indented(depth - 1, j, True)]  # fmt: skip
        return {"m": ["m = (m * 3 + n) % 53"], "out": [f"out[({i} + n) % 8] = m"]}.get(
            kind, [f"n = (n + r[{i} % 8] + m) % 101"]
        )

    def indented(self, depth, i, in_loop):
        return [f"    {line}" for line in self.lines(depth, i, in_loop)]

    def body(self):
        made = ["m = 1", "for i0 in pto.loop(r.shape[0]):"]
        while True:
            inner = self.indented(3, "i0", True)
            if any("break" in line or "continue" in line for line in inner):
                return [*made, *inner]


BODIES |= {f"seed {seed}": "\n".join(Texts(seed).body()) for seed in range(12)}


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    file = tmp_path_factory.mktemp("jumps") / "jumping.py"
    lines = ["import pto", ""]
    for number, body in enumerate(BODIES.values()):
        own = body.lstrip("\n").split("\n")
        margin = len(own[0]) - len(own[0].lstrip())
        lines += ["@pto.jit", f"def f{number}(r, out):", "    n = 0",
                  *(f"    {line[margin:]}" for line in own), "    out[7] = out[7] + n"]  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("jumping", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, f"f{i}") for i, name in enumerate(BODIES)}


@pytest.mark.parametrize("name", BODIES)
def test_a_program_with_jumps_runs_as_in_python(name, functions):
    for r in (R, -R[::-1], np.abs(R), np.zeros(8, "i8") - 1):
        out, want = np.zeros(8, "i8"), np.zeros(8, "i8")
        if name == "while True" and (r >= 0).all():
            continue  # it would read beyond r
        if name == "a step from data" and r[6] <= 0:
            continue
        functions[name].__wrapped__(r, want)
        functions[name](r, out)
        assert out.tolist() == want.tolist(), f"{BODIES[name]}\nr = {r.tolist()}"


def test_a_loop_that_is_left_has_a_gradient():
    torch = pytest.importorskip("torch")

    @pto.jit
    def until(x, limit):
        total = pto.zeros([3])
        for i in pto.loop(x.shape[0]):
            if pto.sum(x[i]) > limit[0]:
                break
            total = total + x[i] * x[i]
        return total

    x = torch.tensor([[1.0, 2, 0], [3, 1, 1], [9, 9, 9], [1, 1, 1]], requires_grad=True)
    until(x, torch.tensor([6.0])).sum().backward()
    want = torch.zeros(4, 3)
    want[:2] = 2 * x.detach()[:2]
    torch.testing.assert_close(x.grad, want)
