# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m pto config | machine | adapters | package | studio | bench."""

import argparse
import importlib
import importlib.util
import os
import shlex
import sys
import warnings

from pto import _core, build_config
from pto.errors import Error, Failure, InvalidValue

ADAPTERS = {  # the version of each framework that is served, as in pyproject.toml
    "torch": "torch==2.13.0",
    "tensorflow": "tensorflow-cpu==2.21.0",
    "jax": "jax==0.10.2",
    "onnxruntime": "onnxruntime==1.31.1",
    "mindspore": "mindspore==2.10.0 'numpy<2'",
}
PREBUILT = ("jax", "onnxruntime")
PYTHON = ("<", os.path.dirname(os.__file__) + os.sep)  # lines of Python itself begin so


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
        if importlib.util.find_spec(arguments.name) is None:
            raise Failure(
                f"adapters build {arguments.name}: the framework is not installed",
                "an adapter is built for the version that is installed",
                f"run: pip install {ADAPTERS[arguments.name]}",
            )
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
    for name in ADAPTERS:
        print(f"{name}: {described(name)}")


def described(name: str) -> str:
    """One line: what can be used of an adapter, or why nothing can."""
    if importlib.util.find_spec(name) is None:
        return f"not installed; to use it: pip install {ADAPTERS[name]}"
    try:
        return importlib.import_module(f"pto.adapters.{name}").describe()
    except Error as error:
        return f"not usable: {error.what}; to mend it: {error.fix}"
    except ImportError as error:
        return f"not usable: {error}; it is tested with: pip install {ADAPTERS[name]}"


def package(arguments: argparse.Namespace) -> None:
    """Saves functions compiled for calls; without calls prints what a file holds."""
    print(importlib.import_module("pto.package_command").run(arguments))


def studio(arguments: argparse.Namespace) -> None:
    """Writes one HTML page of a trace, a package or a call: timeline, waits, texts beside lines."""
    command = importlib.import_module("pto.studio_command")
    print(command.write(arguments.what, arguments.output, arguments.source))


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
    one.add_argument("file", nargs="?", help="it is written; without calls, read")
    one.add_argument("--library", action="store_true",
                     help="build kernels of pto.ops ahead; without a file it replaces"
                     " pto/lib/kernels.pto of this installation")  # fmt: skip
    one.add_argument("--list", help="--library: a file of calls; pto/ops/library.txt")
    one.add_argument("--into", help="--library: the wheel that gets the kernels")
    one.add_argument("calls", nargs="*", help="such as 'softmax(f32[:, 64], eps=1e-5)'")
    one.add_argument("--of", help="the module, or its file, that defines the functions")
    one.add_argument("--targets", default="", help="such as portable,avx2,avx512")
    one.add_argument("--texts", action="store_true", help="also save lines, stages and C++")
    one.set_defaults(run=package)
    one = commands.add_parser("studio", help=studio.__doc__)
    one.add_argument("what", metavar="TRACE|PACKAGE|CALL",
                     help="a file that f.trace(path, *args), rt.trace(path) or pto.package() wrote;"
                     " or a call of a jitted function or operator of a file or a module:"
                     " softmax.py:softmax(x), module:softmax(x)")  # fmt: skip
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


def run() -> int:
    """Runs the command that the user wrote; returns its exit code."""
    arguments = parser().parse_args()
    try:
        return arguments.run(arguments) or 0
    except Error as error:
        if error.location.startswith(PYTHON):  # a command is no line of the user's
            error.location = ""
        print(f"error: {error}", file=sys.stderr)
        return 1


def main() -> int:
    """Runs a command; one that is interrupted, or cannot print, ends as other tools of Unix do."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 it was closed: >&-
    if getattr(sys.stdout, "errors", "") == "strict":  # a name may have letters it cannot write
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return run()
        finally:
            print(end="", flush=True)  # what cannot be written fails here, not when Python ends
    except KeyboardInterrupt:
        return 130  # as a shell counts SIGINT, and below SIGPIPE
    except BrokenPipeError:
        code = 141
    except OSError as error:
        code, name = 1, error.filename or "the output"
        print(f"error: {name} cannot be read or written: {error.strerror}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest there
    return code


if __name__ == "__main__":
    sys.exit(main())
