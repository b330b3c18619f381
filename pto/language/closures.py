# SPDX-License-Identifier: Apache-2.0
"""The variables that a function sees of the functions and classes around it.

    closure_of(f)["scale"].cell_contents

Thread safety: pure functions.
"""

import types


def is_empty(cell: types.CellType) -> bool:
    """Says whether a cell of a closure has no contents yet."""
    return cell == types.CellType()


def closure_of(function: types.FunctionType) -> dict[str, types.CellType]:
    """The cells of a function by their names, but for those that are empty yet: __class__ in the
    body of its class, and functions that are defined behind this one."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell for name, cell in cells if not is_empty(cell)}
