# SPDX-License-Identifier: Apache-2.0
"""pto.tile_layout: offsets against the definition of each layout, pictures, refusals."""

import re
import xml.etree.ElementTree as tree

import numpy as np
import pytest

import pto

ROW, COL, NONE = "BLayout::RowMajor", "BLayout::ColMajor", "SLayout::NoneBox"
# (order of boxes, order in a box, bytes of a box, element, its bytes) with the box's sizes.
LAYOUTS = [
    (ROW, NONE, 512, "float", 4, (1, 1)),
    (COL, NONE, 512, "half", 2, (1, 1)),
    (COL, "SLayout::RowMajor", 512, "float", 4, (16, 8)),
    (ROW, "SLayout::ColMajor", 512, "half", 2, (16, 16)),
    (ROW, "SLayout::RowMajor", 512, "int8_t", 1, (16, 32)),
    (COL, "SLayout::ColMajor", 512, "int8_t", 1, (32, 16)),
    (COL, "SLayout::RowMajor", 1024, "float", 4, (16, 16)),
    (ROW, "SLayout::RowMajor", 32, "int8_t", 1, (16, 2)),
]


def defined(rows, columns, order, inner, box):
    """The offsets by the words: boxes one after another, elements of a box likewise."""
    boxes = np.arange((rows // box[0]) * (columns // box[1]))
    grid = (rows // box[0], columns // box[1])
    number = boxes.reshape(grid) if order == ROW else boxes.reshape(grid[::-1]).T
    within = np.arange(box[0] * box[1])
    element = within.reshape(box[::-1]).T if inner.endswith("ColMajor") else within.reshape(box)
    return np.kron(number, np.ones(box, int)) * box[0] * box[1] + np.tile(element, grid)


@pytest.mark.parametrize("order,inner,nbytes,element,itemsize,box", LAYOUTS)
def test_offsets_follow_the_definition(order, inner, nbytes, element, itemsize, box):
    rows, columns = 32, 64
    made = pto.tile_layout(
        f"Tile<TileType::Mat, {element}, {rows}, {columns}, {order}, {rows}, {columns}, {inner}, "
        f"{nbytes}>"
    )
    assert (made.box, made.itemsize) == (box, itemsize)
    np.testing.assert_array_equal(made.offsets, defined(rows, columns, order, inner, box))
    assert not made.offsets.flags.writeable


def test_a_picture_has_a_cell_an_element_and_the_edges_of_boxes():
    made = pto.tile_layout("TileLeft<float, 32, 16>")
    root = tree.fromstring(made.svg())
    name = "{http://www.w3.org/2000/svg}"
    cells = [one for one in root.iter(f"{name}rect") if one.find(f"{name}title") is not None]
    titles = [one.find(f"{name}title").text for one in cells]
    assert titles == [f"[{r}, {c}] at {made.offsets[r, c]}" for r in range(32) for c in range(16)]
    assert len([*root.iter(f"{name}rect")]) - len(cells) == 2 * 2
    [line] = root.iter(f"{name}polyline")
    assert len(line.get("points").split()) == 32 * 16
    assert "boxes of 16 x 8" in made._repr_html_() and "<svg" in made._repr_html_()


def test_a_large_tile_is_drawn_in_part():
    made = pto.tile_layout("Tile<TileType::Vec, float, 256, 1024>")
    assert made.offsets[255, 1023] == 256 * 1024 - 1
    assert len(re.findall(r"<rect", made.svg())) == 64 * 64


NO_COMPILER = {
    "PTO_CXX=/no/compiler": 'compiler "/no/compiler" was not found',
    "PTO_COMPILE_SECONDS=0.01": "did not end within 0.01 s",
}


@pytest.mark.parametrize("setting", NO_COMPILER)
def test_without_a_compiler_the_error_is_about_the_compiler(setting, tmp_path, monkeypatch):
    monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(*setting.split("="))
    with pytest.raises(pto.errors.Failure) as caught:
        pto.tile_layout("TileLeft<float, 32, 16>")
    assert NO_COMPILER[setting] in str(caught.value) and "is no tile" not in str(caught.value)
    assert "fix: " in str(caught.value)


@pytest.mark.parametrize(
    "tile, why",
    [
        ("Tile<TileType::Vec, float, 8, 15>", "multiple of 32 bytes"),
        ("Tile<TileType::Vec, float, -1, 8>", "must be positive"),
        ("Nothing<float>", "Nothing"),
        ("float", "float"),
        ("", "not the name of a C\\+\\+ type"),
        ("int; int f()", "not the name of a C\\+\\+ type"),
        (3, "not the name of a C\\+\\+ type"),
        ("Tile<TileType::Vec, float, 8192, 8192>", "at most 16777216 are listed"),
    ],
)
def test_what_is_no_tile_is_refused(tile, why):
    with pytest.raises(pto.Error, match=why) as caught:
        pto.tile_layout(tile)
    assert "fix: " in str(caught.value)
