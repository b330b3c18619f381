# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m pto config | machine | adapters | package | studio | bench."""

import argparse
import importlib
import importlib.util
import os
import shlex
import sys
import warnings
from typing import Any

from pto import _core, build_config
from pto.errors import Error, InvalidValue

ADAPTERS = {  # the version of each framework that is served, as in pyproject.toml
    "torch": "torch==2.13.0",
    "tensorflow": "tensorflow-cpu==2.21.0",
    "jax": "jax==0.10.2",
    "onnxruntime": "onnxruntime==1.31.1",
    "mindspore": "mindspore==2.10.0 'numpy<2'",
}
PREBUILT = ("jax", "onnxruntime")


def config(arguments: argparse.Namespace) -> None:
    """Prints one line for another build system."""
    if arguments.version:
        print(build_config.version())
    if arguments.cxxflags:
        print(shlex.join(build_config.cxxflags()))
    if arguments.ldflags:
        print(shlex.join(build_config.ldflags()))
    if arguments.aten:
        part = importlib.import_module("pto.adapters.torch.build")
        folders = [f"-I{part.aten_include()}", f"-I{build_config.include_dir()}"]
        print(shlex.join(["-std=c++17", *folders, "-ldl"]))
    if arguments.cflags:
        print(shlex.join(build_config.cflags()))
    if arguments.cmake or arguments.pkgconfig:
        print(build_config.cmake_dir())
    if arguments.compat:
        print(build_config.compat_dir())
    if arguments.gdb:
        print(build_config.gdb_script())


def machine(_: argparse.Namespace) -> None:
    """Prints this machine's features and the cut-offs derived from them."""
    print(_core.describe_machine(), end="")


def adapters(arguments: argparse.Namespace) -> None:
    """Prints which adapters can be used and how; or builds one."""
    warnings.simplefilter("ignore")  # adapters warn of what is not built
    if arguments.what:
        if arguments.name in PREBUILT:
            print(f"{arguments.name}: nothing to build, the adapter is part of the package")
            return
        part = importlib.import_module(f"pto.adapters.{arguments.name}.build")
        if arguments.xla and not hasattr(part, "build_xla"):
            raise InvalidValue(
                f"adapters build {arguments.name} --xla: there is no such part",
                "--xla builds what TensorFlow's jit_compile=True needs",
                "leave --xla out",
            )
        print(part.build())
        if arguments.xla:
            print(part.build_xla())
        return
    for name, packages in ADAPTERS.items():
        found = importlib.util.find_spec(name) is not None
        text = f"not installed; to use it: pip install {packages}"
        if found:
            text = importlib.import_module(f"pto.adapters.{name}").describe()
        print(f"{name}: {text}")


def package(arguments: argparse.Namespace) -> None:
    """Saves functions compiled for calls; without calls prints what a file holds."""
    if arguments.library:
        print(importlib.import_module("pto.ahead").build(arguments))
        return
    if not arguments.file:
        raise InvalidValue("package: there is no file", "it is read, or written where calls follow",
                           "write python -m pto package FILE [CALL...]")  # fmt: skip
    if not arguments.calls:
        print(importlib.import_module("pto.container").described(arguments.file))
        return
    modules = [module_of(arguments.of)] if arguments.of else []
    modules.append(importlib.import_module("pto.ops"))
    texts = importlib.import_module("pto.language.call_texts")
    library = importlib.import_module("pto.language.library")
    found = texts.functions_of(arguments.calls, modules)
    library.package(found, arguments.file, arguments.targets)
    size = os.path.getsize(arguments.file)
    print(f"{arguments.file}: {len(found)} functions, {len(arguments.calls)} calls, {size} bytes")


def module_of(name: str) -> Any:
    """A module by its name, or the path of its file."""
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise InvalidValue(
                f"package --of {name}: {error}",
                "it names a module or a file",
                "pass a name that import finds, or a path ending in .py",
            ) from None
    spec = importlib.util.spec_from_file_location("packaged_functions", name)
    if spec is None or spec.loader is None or not os.path.isfile(name):
        raise InvalidValue(f"package --of {name}: there is no such file",
                           "it names a module or a file", "check the path")  # fmt: skip
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def studio(arguments: argparse.Namespace) -> None:
    """Writes one HTML page of a trace or a call: timeline, waits, the program beside your lines."""
    pages = importlib.import_module("pto.pages")
    if ".py:" in arguments.what:
        page = arguments.output or arguments.what.partition(".py:")[0] + ".html"
        pages.html_of_call(arguments.what, page)
    else:
        page = arguments.output or f"{arguments.what.removesuffix('.json')}.html"
        pages.html(arguments.what, page, arguments.source)
    print(page)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m pto", description=__doc__.splitlines()[0])
    top.add_argument("--version", action="version", version=build_config.version())
    commands = top.add_subparsers(required=True, metavar="command")
    one = commands.add_parser("config", help="what another build system needs")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--cxxflags", action="store_true", help="language level, includes, target")
    what.add_argument("--cflags", action="store_true", help="include folder, for C")
    what.add_argument("--cmake", action="store_true", help="folder of ptoConfig.cmake, for pto_DIR")
    what.add_argument("--pkgconfig", action="store_true", help="folder of pto.pc")
    what.add_argument("--ldflags", action="store_true", help="library folder, library, rpath")
    what.add_argument(
        "--compat", action="store_true", help="include folder of the public library's spellings"
    )
    what.add_argument(
        "--aten", action="store_true", help="flags of a program with what is written for PyTorch"
    )
    what.add_argument("--gdb", action="store_true", help="script that makes gdb print tiles")
    what.add_argument("--version", action="store_true", help="three numbers")
    one.set_defaults(run=config)
    one = commands.add_parser("machine", help=machine.__doc__)
    one.set_defaults(run=machine)
    one = commands.add_parser("adapters", help=adapters.__doc__)
    one.add_argument("what", nargs="?", choices=["build"])
    one.add_argument("name", nargs="?", choices=ADAPTERS, default="torch")
    one.add_argument("--xla", action="store_true", help="tensorflow: also for jit_compile=True")
    one.set_defaults(run=adapters)
    one = commands.add_parser("package", help=package.__doc__)
    one.add_argument("file", nargs="?")
    one.add_argument("--library", action="store_true", help="build kernels of pto.ops ahead")
    one.add_argument("--list", help="--library: a file of calls; pto/ops/library.txt")
    one.add_argument("--into", help="--library: the wheel that gets the kernels")
    one.add_argument("calls", nargs="*", help="such as 'softmax(f32[:, 64], eps=1e-5)'")
    one.add_argument("--of", help="the module, or its file, that defines the functions")
    one.add_argument("--targets", default="", help="such as portable,avx2,avx512")
    one.set_defaults(run=package)
    one = commands.add_parser("studio", help=studio.__doc__)
    one.add_argument("what", metavar="TRACE|FILE.py:CALL",
                     help="a file that f.trace(path, *args) or rt.trace(path) wrote; or a call of a"
                     " jitted function of a file: softmax.py:softmax(x)")  # fmt: skip
    one.add_argument("-o", "--output", help="the page; without it beside the file")
    one.add_argument("--source", action="append", default=[],
                     help="a file to show, or a folder of files that lines name")  # fmt: skip
    one.set_defaults(run=studio)
    one = commands.add_parser("bench", help="compare with the libraries of this machine")
    if sys.argv[1:2] == ["bench"]:  # it needs NumPy, whose import takes longer than the others
        bench = importlib.import_module("pto.bench.command")
        bench.add_arguments(one)
        one.set_defaults(run=bench.run)
    return top


def main() -> int:
    arguments = parser().parse_args()
    try:
        return arguments.run(arguments) or 0
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
