# SPDX-License-Identifier: Apache-2.0
"""Rows of products of matrices: operators of the library, or formulas where it has none."""

from typing import Any

from pto import language as tile
from pto.aten.records import library
from pto.aten.rows import row
from pto.aten.table.sizes import grows, unequal
from pto.language.types import cast, wide

_SUM: dict[str, Any] = {"is_sum": True, "ulp": 32, "in_place": False}
_PRODUCT: dict[str, Any] = {**_SUM, "widens": False}  # sums are wide in the product itself


def _added(self, product, beta, alpha):  # type: ignore[no-untyped-def]
    """self * beta + product * alpha, rounded once."""
    return cast(wide(self) * beta + product * alpha, self.dtype)


def _product(a, b):  # type: ignore[no-untyped-def]
    """The product of matrices; that of f16 and bf16 as its sums in f32."""
    is_wide = wide(a) is a
    return tile.matmul(a, b) if is_wide else tile.matmul(a, b, out_dtype=tile.f32)


def _unless_sized(*pairs: Any, result: Any = None, **ranks: int) -> Any:
    """Leaves to ATen, which says what is wrong, tensors of other ranks or of sizes that differ.

    `pairs` are axes of one size; `result` names the axes whose sizes self is expanded to.
    """

    def unless(values):  # type: ignore[no-untyped-def]
        for name, rank in ranks.items():
            if len(library().shape(values[name])) != rank:
                return f"{name} has not {rank} axes"
        if values.get("beta", 1) == 0:
            return "beta is 0: self is not read"
        if result and grows(values["self"], [library().shape(values[n])[i] for n, i in result]):
            return "self is larger than the product"
        return unequal(values, *pairs)

    return unless


def _matrices(first, second):
    def sample(tensor, rows, columns):
        m = int((rows * columns) ** 0.5)
        return {first: tensor(m, m), second: tensor(m, m)}

    return sample


@row("mm", **_PRODUCT, factors=("self", "mat2"), sample=_matrices("self", "mat2"),
     unless=_unless_sized((("self", 1), ("mat2", 0)), self=2, mat2=2))  # fmt: skip
def mm(self, mat2):
    return tile.matmul(self, mat2)


def _batches(first, second):
    def sample(tensor, rows, columns):
        m = max(1, int((rows * columns / 4) ** 0.5))
        return {first: tensor(4, m, m), second: tensor(4, m, m)}

    return sample


@row("bmm", **_PRODUCT, factors=("self", "mat2"), sample=_batches("self", "mat2"),
     unless=_unless_sized((("self", 0), ("mat2", 0)), (("self", 2), ("mat2", 1)),
                          self=3, mat2=3))  # fmt: skip
def bmm(self, mat2):
    return tile.matmul(self, mat2)


def _addmm(tensor, rows, columns):
    made = _matrices("mat1", "mat2")(tensor, rows, columns)
    return {"self": tensor(*made["mat1"].shape), **made}


@row("addmm", **_PRODUCT, factors=("mat1", "mat2"), sample=_addmm,
     unless=_unless_sized((("mat1", 1), ("mat2", 0)), mat1=2, mat2=2,
                          result=(("mat1", 0), ("mat2", 1))))  # fmt: skip
def addmm(self, mat1, mat2, beta=1, alpha=1):
    return _added(self, _product(mat1, mat2), beta, alpha)


@row("_addmm_activation", **_PRODUCT, factors=("mat1", "mat2"), sample=_addmm,
     unless=_unless_sized((("mat1", 1), ("mat2", 0)), mat1=2, mat2=2,
                          result=(("mat1", 0), ("mat2", 1))))  # fmt: skip
def addmm_activation(self, mat1, mat2, beta=1, alpha=1, use_gelu=False):
    found = wide(self) * beta + _product(mat1, mat2) * alpha
    return cast(tile.gelu(found, "tanh") if use_gelu else tile.relu(found), self.dtype)


_BATCHES = (("batch1", 0), ("batch2", 0)), (("batch1", 2), ("batch2", 1))


def _baddbmm(tensor, rows, columns):
    made = _batches("batch1", "batch2")(tensor, rows, columns)
    return {"self": tensor(*made["batch1"].shape), **made}


@row("baddbmm", **_PRODUCT, factors=("batch1", "batch2"), sample=_baddbmm,
     unless=_unless_sized(*_BATCHES, self=3, batch1=3, batch2=3,
                          result=(("batch1", 0), ("batch1", 1), ("batch2", 2))))  # fmt: skip
def baddbmm(self, batch1, batch2, beta=1, alpha=1):
    return _added(self, _product(batch1, batch2), beta, alpha)


@row("addbmm", **_PRODUCT, factors=("batch1", "batch2"),
     sample=lambda t, m, n: {**_baddbmm(t, m, n), "self": t(*_batches("x", "y")(t, m, n)["x"]
                                                           .shape[1:])},
     unless=_unless_sized(*_BATCHES, batch1=3, batch2=3,
                          result=(("batch1", 1), ("batch2", 2))))  # fmt: skip
def addbmm(self, batch1, batch2, beta=1, alpha=1):
    return _added(self, tile.sum(_product(batch1, batch2), 0), beta, alpha)


@row("mv", **_SUM, factors=("self", "vec"),
     unless=_unless_sized((("self", 1), ("vec", 0)), self=2, vec=1),
     sample=lambda t, m, n: {"self": t(m, n), "vec": t(n)})  # fmt: skip
def mv(self, vec):
    return tile.sum(self * vec, -1)


@row("addmv", **_SUM, factors=("mat", "vec"),
     unless=_unless_sized((("mat", 1), ("vec", 0)), mat=2, vec=1, result=(("mat", 0),)),
     sample=lambda t, m, n: {"self": t(m), "mat": t(m, n), "vec": t(n)})  # fmt: skip
def addmv(self, mat, vec, beta=1, alpha=1):
    return self * beta + tile.sum(mat * vec, -1) * alpha


@row("dot", **_SUM, factors=("self", "tensor"),
     unless=_unless_sized((("self", 0), ("tensor", 0)), self=1, tensor=1),
     sample=lambda t, m, n: {"self": t(m * n), "tensor": t(m * n)})  # fmt: skip
def dot(self, tensor):
    return tile.sum(self * tensor)


@row("vdot", **_SUM, factors=("self", "other"),
     unless=_unless_sized((("self", 0), ("other", 0)), self=1, other=1),
     sample=lambda t, m, n: {"self": t(m * n), "other": t(m * n)})  # fmt: skip
def vdot(self, other):
    return tile.sum(self * other)


@row("outer", "ger", in_place=False, unless=_unless_sized(self=1, vec2=1),
     sample=lambda t, m, n: {"self": t(m), "vec2": t(n)})  # fmt: skip
def outer(self, vec2):
    return tile.unsqueeze(self, 1) * vec2


@row("addr", is_sum=True, ulp=4,
     unless=_unless_sized(result=(("vec1", 0), ("vec2", 0)), self=2, vec1=1, vec2=1),
     sample=lambda t, m, n: {"self": t(m, n), "vec1": t(m), "vec2": t(n)})  # fmt: skip
def addr(self, vec1, vec2, beta=1, alpha=1):
    return self * beta + tile.unsqueeze(vec1, 1) * vec2 * alpha
