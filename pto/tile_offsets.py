# SPDX-License-Identifier: Apache-2.0
"""tile_layout: where the elements of a C++ tile lie in its memory, as numbers and as a picture.

    pto.tile_layout("TileLeft<float, 32, 32>")               # a picture, at the end of a cell
    pto.tile_layout("Tile<TileType::Vec, float, 4, 8>").offsets[1, 0]   # 8

The compiler answers, so that a layout is what kernels see (pto/isa/tile/tile.hpp). A cell of the
picture is an element, at its row and column. A line walks through the elements in the order of
memory; thick lines are the edges of boxes, and the colour goes from the first to the last offset.

Thread safety: pure functions; a TileLayout is immutable.
"""

import ctypes
import html
import re
import tempfile
from dataclasses import dataclass
from typing import Any

from pto import _core
from pto.errors import Failure, InvalidValue

MOST_ELEMENTS = 1 << 24  # of a tile
MOST_DRAWN = 64  # rows and columns of a picture
CELL = 14  # pixels
_TILE = re.compile(r"[\w:<>, -]+")
_SOURCE = """
#include <pto/pto-inst.hpp>
using namespace pto;
using PictureOf = %s;
extern "C" __attribute__((visibility("default"))) void pto_tile_sizes(int32_t* sizes) {
  const int32_t values[] = {PictureOf::Rows, PictureOf::Cols, PictureOf::InnerRows,
                            PictureOf::InnerCols, int32_t(sizeof(typename PictureOf::DType))};
  for (int i = 0; i < 5; ++i) sizes[i] = values[i];
}
extern "C" __attribute__((visibility("default"))) void pto_tile_offsets(int32_t* offsets) {
  for (int row = 0; row < PictureOf::Rows; ++row)
    for (int column = 0; column < PictureOf::Cols; ++column)
      *offsets++ = PictureOf::Offset(row, column);
}
"""


@dataclass(frozen=True, eq=False)
class TileLayout:
    """`tile`: its C++ type. `offsets`: int32 [rows, columns], the elements in front of each one in
    memory. `box`: rows and columns of a box, (1, 1) where the layout has none. `itemsize`: bytes.
    """

    tile: str
    offsets: Any
    box: tuple[int, int]
    itemsize: int

    def svg(self) -> str:
        """The picture as the text of an SVG: at most the first 64 rows and columns."""
        drawn = self.offsets[:MOST_DRAWN, :MOST_DRAWN]
        rows, columns = drawn.shape
        last = max(int(drawn.max()), 1)
        parts = [_cell(r, c, int(drawn[r, c]), last) for r in range(rows) for c in range(columns)]
        order = drawn.ravel().argsort(kind="stable")
        points = " ".join(
            f"{_middle(int(i) % columns)},{_middle(int(i) // columns)}" for i in order
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="#333" stroke-width="1"/>')
        if self.box != (1, 1):
            parts += [
                _rectangle(r, c, min(self.box[0], rows - r), min(self.box[1], columns - c))
                + ' fill="none" stroke="#000" stroke-width="3"/>'
                for r in range(0, rows, self.box[0])
                for c in range(0, columns, self.box[1])
            ]
        width, height = columns * CELL, rows * CELL
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 {width + 4} {height + 4}" '
                f'width="{width + 4}" height="{height + 4}">'
                f"<title>{html.escape(self.tile)}</title>{''.join(parts)}</svg>")  # fmt: skip

    def __str__(self) -> str:
        rows, columns = self.offsets.shape
        boxes = "" if self.box == (1, 1) else f", boxes of {self.box[0]} x {self.box[1]}"
        return f"{self.tile}: {rows} x {columns} of {self.itemsize} bytes{boxes}"

    def _repr_html_(self) -> str:
        return f"<div>{html.escape(str(self))}</div>{self.svg()}"


def _middle(place: int) -> float:
    return (place + 0.5) * CELL


def _cell(row: int, column: int, offset: int, last: int) -> str:
    shade = f"hsl({210 - 170 * offset // last},80%,{88 - 18 * offset // last}%)"
    return (
        f'{_rectangle(row, column, 1, 1)} fill="{shade}" stroke="#fff">'
        f"<title>[{row}, {column}] at {offset}</title></rect>"
    )


def _rectangle(row: int, column: int, rows: int, columns: int) -> str:
    return (f'<rect x="{column * CELL}" y="{row * CELL}" width="{columns * CELL}" '
            f'height="{rows * CELL}"')  # fmt: skip


def tile_layout(tile: str) -> TileLayout:
    """The layout of a C++ tile type: "Tile<TileType::Vec, float, 16, 32>", or one that has a name,
    such as "TileAcc<float, 32, 32>". InvalidValue for what the compiler refuses, with its words;
    Failure where no compiler runs.

    >>> pto.tile_layout("Tile<TileType::Vec, float, 2, 8>").offsets[1].tolist()
    [8, 9, 10, 11, 12, 13, 14, 15]
    """
    import numpy as np

    if not isinstance(tile, str) or not _TILE.fullmatch(tile):
        raise InvalidValue(f"tile_layout: {tile!r}", "it is not the name of a C++ type",
                           'write "Tile<TileType::Vec, float, 16, 32>"')  # fmt: skip
    try:
        made = _core.compile_functions("tile_layout", _SOURCE % tile, [])
    except Failure as error:
        if not (said := _first_error(str(error))):
            raise  # the compiler is missing or did not end, and said nothing about the tile
        raise InvalidValue(f"tile_layout: {tile} is no tile", said,
                           "see pto/isa/tile/tile.hpp for its parameters") from None  # fmt: skip
    library = _loaded(made.object)
    sizes = np.zeros(5, np.int32)
    library.pto_tile_sizes(ctypes.c_void_p(sizes.ctypes.data))
    rows, columns, *box, itemsize = (int(one) for one in sizes)
    if rows * columns > MOST_ELEMENTS:
        raise InvalidValue(f"tile_layout: {tile} has {rows * columns} elements",
                           f"at most {MOST_ELEMENTS} are listed",
                           "take a smaller tile of the layout")  # fmt: skip
    offsets = np.zeros((rows, columns), np.int32)
    library.pto_tile_offsets(ctypes.c_void_p(offsets.ctypes.data))
    offsets.flags.writeable = False
    return TileLayout(tile, offsets, (box[0], box[1]), itemsize)


def _first_error(text: str) -> str:
    lines = [line.partition("error: ")[2] for line in text.splitlines() if "error: " in line]
    return lines[0] if lines else ""


def _loaded(code: bytes) -> ctypes.CDLL:
    """The shared object of these bytes; its file is gone when it is loaded."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(code)
        file.flush()
        return ctypes.CDLL(file.name)
