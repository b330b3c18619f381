# SPDX-License-Identifier: Apache-2.0
"""cpp_kernel: a hand-written C++ kernel of an operator, compiled at its first use.

    kernel = cpp_kernel("conv.cpp", "conv2d")     # beside the calling file, or C++ text
    kernel = cpp_kernel(TEXT, "f", include_dirs="include", flags=["-DWIDTH=8", "-DPTO_CHECKED"])

The source defines `extern "C" int32_t NAME(const pto_args*)` as pto/abi/define_operator.h describes
it, or `PTO_OPERATOR_KERNEL(NAME)`, which reads arguments by their names in the schema
(pto/operators/named_arguments.hpp); it may include pto/pto-inst.hpp and the standard library. It
is compiled for each set of element types: PTO_TYPE_0 to PTO_TYPE_7 are the C++ types of the tensor
arguments. A list has the type of its first tensor, an absent argument that of the first argument;
further ones are int64_t, so that one file may hold the kernels of several operators.

Thread safety: immutable.
"""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pto.errors import Error, InvalidType, InvalidValue
from pto.language.dtypes import dtype
from pto.language.location import describe
from pto.sources import folders_of, read_source, split_flags

# The function that is called: the kernel, compiled for the signature of its operator.
_NAMED = """
struct PtoSignature {
  static constexpr char text[] = "%s";
};
extern "C" int32_t pto_named_kernel(const pto_args* args) {
  return %s(pto::NamedArguments<PtoSignature>(args));
}
"""


@dataclass(frozen=True)
class NativeKernel:
    """The source file or text, the function's name, and whether it takes tensors with gaps.

    `front` are the definitions of the caller, `folders` those of its own headers.
    """

    path: Path | str
    function: str
    takes_strides: bool
    front: str = ""
    folders: tuple[str, ...] = ()

    def source(
        self, operator: str, signature: str, dtypes: list[str | None]
    ) -> tuple[str, str, str]:
        """(name, text, function), the element types defined in front of the text."""
        try:
            text = read_source(self.path, self.folders, operator).text
        except Error as error:
            is_absent = isinstance(self.path, Path) and not self.path.exists()
            raise type(error)(
                f"{operator}: its kernel cannot be read: {error.what}",
                "pto compiles the source of a kernel at its first use; " + error.why,
                f"write {self.path}, or correct the name in cpp_kernel()"
                if is_absent
                else error.fix,
            ) from None
        first = next(name for name in dtypes if name)
        types = "".join(
            f"#define PTO_TYPE_{i} {dtype(name or first).cpp}\n"
            for i, name in enumerate([*dtypes, *["i64"] * 8][:8])
        )
        text = types + self.front + text
        if f"PTO_OPERATOR_KERNEL({self.function})" not in text:
            return operator, text, self.function
        return operator, text + _NAMED % (signature, self.function), "pto_named_kernel"


def cpp_kernel(
    source: str | os.PathLike, function: str, *, takes_strides: bool = False,
    include_dirs: str | os.PathLike | Iterable[str | os.PathLike] = (),
    flags: str | Iterable[str] = (),
) -> NativeKernel:  # fmt: skip
    """A kernel of an operator.

    `source` is a path relative to the caller's file, or C++ text of several lines; own headers lie
    beside the file or in `include_dirs`, one folder or several, and a changed one is compiled anew.
    `flags`: -DNAME=VALUE, -UNAME, -IFOLDER.

    Example:
        TEXT = '''
        #include "pto/operators/named_arguments.hpp"
        using namespace pto;
        PTO_OPERATOR_KERNEL(twice) {
          const PTO_TYPE_0* x = in.data("x"_arg);
          PTO_TYPE_0* y = in.data("result"_arg);
          for (int k = 0; k < in.tensor("x"_arg).sizes[0]; ++k) y[k] = 2 * x[k];
          return 0;
        }'''
        @pto.op("twice(Tensor x) -> Tensor")
        class Twice:
            kernel = pto.cpp_kernel(TEXT, "twice")
            def infer(x): return x

        print(Twice(v))
    """
    _check_names(source, function)
    front, folders, standard = split_flags(flags)
    if standard not in ("", "c++17"):
        raise InvalidValue(f"cpp_kernel: flags: -std={standard}",
                           "kernels of operators are C++17", "leave it out")  # fmt: skip
    here = Path(sys._getframe(1).f_globals.get("__file__", "")).parent
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    named = [*folders_of(include_dirs), *folders]
    beside = tuple(str(here / Path(folder).expanduser()) for folder in named)
    path = source if is_text else here / Path(source).expanduser()
    return NativeKernel(path, function, takes_strides, front, beside)


def _check_names(source: object, function: object) -> None:
    if not isinstance(source, str | os.PathLike) or not isinstance(os.fspath(source), str):
        raise InvalidType(
            f"cpp_kernel: the source is {describe(source)}",
            "it is a path, or C++ text of several lines",
            "pass the path of a C++ file, or its text",
        )
    if not isinstance(function, str) or not function.isidentifier():
        raise InvalidType(
            f"cpp_kernel: the function is {describe(function)}",
            "it names a function of the source",
            'pass its name, such as "added"',
        )
