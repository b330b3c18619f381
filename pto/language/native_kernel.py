# SPDX-License-Identifier: Apache-2.0
"""cpp_kernel: a hand-written C++ kernel of an operator, compiled at its first use.

    kernel = cpp_kernel("conv.cpp", "conv2d")     # beside the calling file

The source defines `extern "C" int32_t NAME(const pto_args*)` as pto/abi/define_operator.h describes
it, or `PTO_OPERATOR_KERNEL(NAME)`, which reads arguments by their names in the schema
(pto/operators/named_arguments.hpp); it may include pto/pto-inst.hpp and the standard library. It
is compiled for each set of element types: PTO_TYPE_0 to PTO_TYPE_7 are the C++ types of the tensor
arguments. A list has the type of its first tensor, an absent argument that of the first argument;
further ones are int64_t, so that one file may hold the kernels of several operators.

Thread safety: immutable.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from pto.errors import MissingFile
from pto.language.dtypes import dtype

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
    """The source file, the function's name, and whether it takes tensors with gaps."""

    path: Path
    function: str
    takes_strides: bool

    def source(
        self, operator: str, signature: str, dtypes: list[str | None]
    ) -> tuple[str, str, str]:
        """(name, text, function), the element types defined in front of the text."""
        try:
            text = self.path.read_text()
        except OSError as error:
            raise MissingFile(
                f"{operator}: its kernel cannot be read: {error}",
                "pto compiles the source of a kernel at its first use",
                f"write {self.path}, or correct the name in cpp_kernel()",
            ) from None
        first = next(name for name in dtypes if name)
        types = "".join(
            f"#define PTO_TYPE_{i} {dtype(name or first).cpp}\n"
            for i, name in enumerate([*dtypes, *["i64"] * 8][:8])
        )
        text = f'{types}#line 1 "{self.path.name}"\n{text}'
        if f"PTO_OPERATOR_KERNEL({self.function})" not in text:
            return operator, text, self.function
        return operator, text + _NAMED % (signature, self.function), "pto_named_kernel"


def cpp_kernel(path: str, function: str, *, takes_strides: bool = False) -> NativeKernel:
    """A kernel of an operator; `path` is relative to the caller's file."""
    here = sys._getframe(1).f_globals.get("__file__", "")
    return NativeKernel(Path(here).parent / path, function, takes_strides)
