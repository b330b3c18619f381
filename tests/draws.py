# SPDX-License-Identifier: Apache-2.0
"""Seeds as a test: a test module that draws random data at its import seeds it before.

Else the data depend on what other modules drew, and a failure does not come again. tests/tidy.py
runs the rule.
"""

import ast
import re
from collections.abc import Iterator

from repository import File, Offence

SEED = re.compile(r"torch\.manual_seed|(np\.)?random\.seed")
DRAW = re.compile(
    r"(torch\.)?rand(n|int|perm|(n|int)?_like)?|(np\.)?random\.(?!default_rng)[a-z]\w+"
)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported, in their order: no body of a function."""
    yield node
    below: Iterator[ast.AST] | list[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        below = [*node.decorator_list, node.args]
    elif isinstance(node, ast.Lambda):
        below = [node.args]
    for one in below:
        yield from at_import(one)


def unseeded_draws(file: File) -> Iterator[Offence]:
    if file.kind != ".py" or file.path.parts[0] != "tests":
        return
    for node in at_import(file.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if SEED.fullmatch(name):
            return
        is_unseeded = DRAW.fullmatch(name) and all(k.arg != "generator" for k in node.keywords)
        if is_unseeded or ast.unparse(node).endswith("default_rng()"):
            yield Offence(
                file.at(node.lineno), f"{name}() draws at the import without a seed",
                "its data depend on what was drawn before, so that a failure does not come again",
                "call torch.manual_seed(0) or np.random.seed(0) before, or pass a generator",
            )  # fmt: skip
            return
