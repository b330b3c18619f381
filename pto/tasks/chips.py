# SPDX-License-Identifier: Apache-2.0
"""Chips that kernels may be checked for: platform "a2a3sim" or "a5sim".

    text = source.with_defines(core_defines("aiv") + chip_defines("a2a3sim", "aiv"))
    explain_buffer(error, "add", "a2a3sim", "aiv")                # raises if it is about a buffer

Programs run as on "cpu", but the tiles of a kernel must fit the buffers of its core.
"""

import re

from pto.errors import Failure, InvalidValue

CORE_TYPES = ("aic", "aiv", "mix")  # a cube core, a vector core, both
_CHIPS = {"a2a3sim": "1", "a5sim": "2"}
_BUFFERS = ("Vec (UB)", "Mat (L1)", "Left (L0A)", "Right (L0B)", "Acc (L0C)", "Bias (BT)",
            "Scaling (FB)")  # fmt: skip


def core_defines(core_type: str) -> str:
    """Lines in front of a kernel's text: macros that say for which core it is built.

    Bodies of generated kernels stand under one of them.
    """
    kinds = {"aiv": ("VEC",), "aic": ("CUBE",), "mix": ("CUBE", "VEC")}[core_type]
    return "".join(f"#define __DAV_{kind}__ 1\n" for kind in kinds)


def chip_defines(platform: str, core_type: str) -> str:
    """Lines in front of a kernel's text (isa/kernel/chip.hpp); "" for a platform without limits."""
    if platform not in _CHIPS:
        return ""
    core = CORE_TYPES.index(core_type) + 1
    quiet = "#define PTO_PORTABLE\n"  # a warning would displace the lines of an error
    return f"#define PTO_CHIP {_CHIPS[platform]}\n#define PTO_CHIP_CORE {core}\n{quiet}"


def explain_buffer(error: Failure, kernel: str, platform: str, core_type: str) -> None:
    """Raises an error of its own if the compiler found a tile too large for the chip."""
    found = re.search(r"BufferOfChip<(\d+), (\d+)L?, (\d+)L?>", error.what)
    if platform not in _CHIPS or not found:
        return
    place, asked, room = map(int, found.groups())
    site = r"(\S+?:\d+):\d+:\s+(?:required from here|note: in instantiation)"
    lines = [line for line in re.findall(site, error.what) if "pto/isa/" not in line]
    where = f" at {lines[0].rpartition('/')[2]}" if lines else ""
    chip = platform.removesuffix("sim")
    if room == 0:
        raise InvalidValue(
            f"kernel {kernel}: a tile{where} asks for {asked} bytes of {_BUFFERS[place]}, but an "
            f"{core_type} core of {chip} has no such buffer",
            "a vector core (aiv) has Vec; a cube core (aic) has the other buffers; mix has all",
            f'move the tile, or give the kernel the core_type "{"aiv" if place == 0 else "aic"}" '
            'or "mix"',
        ) from error
    raise InvalidValue(
        f"kernel {kernel}: a tile{where} asks for {asked} bytes of {_BUFFERS[place]}, but "
        f"{chip} has {room}",
        "one buffer holds the whole tile",
        "use a smaller tile, in a loop",
    ) from error
