# SPDX-License-Identifier: Apache-2.0
"""Prints tiles in gdb as matrices, whatever their layout.

    (gdb) source pto/isa/gdb_printer.py        # the path: python -m pto config --gdb
    (gdb) print tile
    Tile float 16 x 64 at Vec, valid 16 x 60
      [0]  0 1 2 3 ... 60 61 62 63
      ...

Only gdb can import this module.
"""

import struct

import gdb

EDGE = 4  # rows and columns shown at each end of a long axis


def element(value) -> str:
    """Returns an element as a number; the classes of narrow floats hold raw bits."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return str(int(value)) if kind.sizeof == 1 else str(value)
    raw = int(value["raw"])
    name = str(kind)
    if name.endswith("half"):
        return f"{struct.unpack('<e', struct.pack('<H', raw))[0]:.5g}"
    if name.endswith("bfloat16_t"):
        return f"{struct.unpack('<f', struct.pack('<I', raw << 16))[0]:.4g}"
    return hex(raw & (256**kind.sizeof - 1))


def indices(count: int) -> list[int]:
    """Lists all of a short axis, else both ends; -1 stands for the gap."""
    if count <= 2 * EDGE:
        return list(range(count))
    return [*range(EDGE), -1, *range(count - EDGE, count)]


class TilePrinter:
    """Reads a tile by the parameters of its type."""

    def __init__(self, value):
        self.value = value
        kind = value.type.strip_typedefs()
        self.location, self.element_type = kind.template_argument(0), kind.template_argument(1)
        numbers = [int(kind.template_argument(i)) for i in range(2, 9)]
        self.rows, self.cols, order, self.valid_rows, self.valid_cols, self.box, fractal = numbers
        self.is_row_major = order == 0
        size = self.element_type.sizeof
        across = {1024: 16, 32: 2}.get(fractal, 32 // size)
        self.inner = {0: (1, 1), 1: (16, across), 2: (across, 16)}[self.box]

    def offset(self, row: int, col: int) -> int:
        """Returns the position of an element in storage, as Tile::Offset computes it."""
        inner_rows, inner_cols = self.inner
        down, across = -(-self.rows // inner_rows), -(-self.cols // inner_cols)
        box_row, r = divmod(row, inner_rows)
        box_col, c = divmod(col, inner_cols)
        box = box_row * across + box_col if self.is_row_major else box_col * down + box_row
        inside = c * inner_rows + r if self.box == 2 else r * inner_cols + c
        return box * inner_rows * inner_cols + inside

    def storage(self):
        storage = self.value["storage_"]
        names = [field.name for field in storage.type.fields()]
        if "bound" in names:
            if int(storage["bound"]):
                return storage["bound"]
            storage = storage["own"]
        values = storage["values"]
        if values.type.code == gdb.TYPE_CODE_ARRAY:
            return values[0].address
        return values

    def valid(self, static: int, member: str) -> int:
        return static if static >= 0 else int(self.value[member]["value"])

    def to_string(self) -> str:
        rows = self.valid(self.valid_rows, "rows_")
        cols = self.valid(self.valid_cols, "cols_")
        where = str(self.location).rpartition("::")[2]
        name = str(self.element_type).rpartition("::")[2]
        lines = [f"Tile {name} {self.rows} x {self.cols} at {where}, valid {rows} x {cols}"]
        data = self.storage()
        for r in indices(rows):
            if r < 0:
                lines.append("  ...")
                continue
            shown = ["..." if c < 0 else element(data[self.offset(r, c)]) for c in indices(cols)]
            lines.append(f"  [{r}]  " + " ".join(shown))
        return "\n".join(lines)


def printer_of(value):
    kind = value.type.strip_typedefs()
    name = kind.tag or ""
    return TilePrinter(value) if name.startswith("pto::") and "::Tile<" in name else None


gdb.pretty_printers.append(printer_of)
