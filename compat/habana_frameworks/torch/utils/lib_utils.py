# SPDX-License-Identifier: Apache-2.0
"""Tells a setup file the folders of headers and library of custom operators.

    CppExtension("my_op", ["my_op.cpp"], libraries=["habana_pytorch_plugin"],
                 library_dirs=[get_lib_dir()], include_dirs=[get_include_dir()])

Both are folders of links in the cache, since a setup file takes one folder of each.
"""

import os
import pathlib

from pto import build_config
from pto.adapters import build

_PLUGINS = ("habana_pytorch_plugin", "habana_pytorch2_plugin")


def get_include_dir() -> str:
    """Returns the folder of hpu_custom_op.h and of the headers that it includes."""
    headers = pathlib.Path(build_config.compat_dir())
    targets = [file for file in headers.iterdir() if file.suffix in (".h", ".hpp")]
    return _linked("include", [*targets, pathlib.Path(build_config.include_dir()) / "pto"])


def get_lib_dir() -> str:
    """Returns the folder in which the linker finds libpto under the plugins' names."""
    library = pathlib.Path(build_config.library_dir()) / build_config.LIBRARY
    return _linked("lib", [library] * len(_PLUGINS), [f"lib{name}.so" for name in _PLUGINS])


def _linked(name: str, targets: list[pathlib.Path], names: list[str] | None = None) -> str:
    """Makes a folder with links to the targets; safe while other processes make the same."""
    folder = build.cache_folder("custom_op") / name
    folder.mkdir(parents=True, exist_ok=True)
    for target, known in zip(targets, names or [file.name for file in targets], strict=True):
        link = folder / f"{known}.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.replace(folder / known)
    return str(folder)
