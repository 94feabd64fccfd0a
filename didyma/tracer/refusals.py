"""What a tensor under tracing cannot do, with the call that does it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from didyma.refimpl.errors import DidymaError
from didyma.tracer import names as face
from didyma.tracer.traced import Traced

_VALUE = "run the program: dd.compile(program)(...) or dd.interpret(program, ...).values"
_CASTS = {"float": "f32", "double": "f64", "half": "f16", "bfloat16": "bf16", "int": "i32",
          "long": "i64", "short": "i16", "char": "i8", "byte": "u8", "bool": "bool"}  # fmt: skip
_REMEDIES: Mapping[str, str] = {
    **{name: f"x.astype(dd.{dtype})" for name, dtype in _CASTS.items()},
    "item": f"dd.item(x, most=...) is a size that x tells; for its value {_VALUE}",
    **dict.fromkeys(("numpy", "tolist", "data", "tobytes", "data_ptr"), _VALUE),
    **dict.fromkeys(("contiguous", "copy", "clone", "detach", "requires_grad_"),
                    "leave it out: a tensor is a value"),
    **dict.fromkeys(("cpu", "cuda"), "dd.compile(program, engine=...) says where a program runs"),
    **dict.fromkeys(("grad", "backward"), "Didyma computes no gradients"),
    "add_": "x = x + y", "mul_": "x = x * y", "sub_": "x = x - y", "div_": "x = x / y",
    "masked_fill": "dd.where(mask, value, x)", "fill_": "dd.where", "copy_": "dd.where",
    "type": "x.astype(dd.f32)", "type_as": "x.astype(y.dtype)", "dim": "x.ndim",
    "numel": "x.size", "bmm": "x @ y", "mm": "x @ y", "mv": "x @ y", "t": "x.T", "H": "x.mT",
    "gather": "dd.take_along_axis(x, indices, axis=axis)", "chunk": "dd.split",
    "index_select": "dd.take(x, indices, axis=axis)", "expand": "dd.broadcast_to(x, shape)",
    "masked_select": "x[mask]", "index_put": "dd.scatter", "put": "dd.scatter",
    "topk": "dd.top_k(x, k)", "cat": "dd.concat([x, y])", "neg": "-x", "sub": "x - y",
    "mul": "x * y", "div": "x / y", "true_divide": "x / y", "eq": "x == y", "ne": "x != y",
    "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y", "norm": "dd.sqrt((x * x).sum())",
    "amax": "x.max(axis=axis)", "amin": "x.min(axis=axis)", "nbytes": "x.size",
    "itemsize": "x.dtype", "repeat": "dd.repeat repeats elements, dd.tile the whole tensor",
    "real": "dd.complex.real", "imag": "dd.complex.imag", "conj": "dd.complex.conj",
}  # fmt: skip


class UnknownAttribute(DidymaError, AttributeError):
    """A tensor has no such attribute; ``hasattr`` is false of it."""


def refuse_operand(x: object, want: str = "a tensor, a NumPy array or a number") -> DidymaError:
    """Return the error for an operand that is not what a function takes."""
    helps = {
        "NoneType": "leave the operand out",
        "ndarray": "dd.asarray(array) makes it a constant",
        "complex": "complex numbers are pairs of reals: see dd.complex",
        "list": "make it an array: np.array(...)",
        "tuple": "make it an array: np.array(...), or take one of a function's results",
    }
    return DidymaError(
        "bad-operand", "an operand", got=f"{x!r:.60} of type {type(x).__name__}",
        want=want, help=helps.get(type(x).__name__, ""),
    )  # fmt: skip


class Refusals(Traced):
    """Operations that need a value, which tracing does not know, or change one in place."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise DidymaError(
            "traced-branch", repr(self),
            got="a Python branch on a tensor's value, which tracing does not know",
            want="a graph that is the same for every value",
            help="dd.where(cond, a, b), dd.cond, dd.while_loop; & for `and`, dd.maximum for max",
        )  # fmt: skip

    def _no_value(self, what: str) -> NoReturn:
        raise DidymaError(
            "traced-value", repr(self), got=f"{what} of a tensor under tracing",
            want="nothing that needs a value before the program runs", help=_VALUE,
        )  # fmt: skip

    def __float__(self) -> float:
        self._no_value("float(x)")

    def __int__(self) -> int:
        self._no_value("int(x)")

    def __index__(self) -> int:
        self._no_value("a Python index")

    def __complex__(self) -> complex:
        self._no_value("complex(x)")

    def __format__(self, spec: str) -> str:
        if spec:
            self._no_value(f"the format {spec!r}")
        return repr(self)

    def __hash__(self) -> int:
        raise DidymaError(
            "traced-value", repr(self), got="a hash", want="a key that Python can compare",
            help="use a name or a number as the key; == of tensors is elementwise",
        )  # fmt: skip

    def __contains__(self, item: object) -> bool:
        raise DidymaError(
            "traced-value", repr(self), got="`value in x`", want="a condition in the graph",
            help="dd.any(x == value)",
        )  # fmt: skip

    def __setitem__(self, key: object, value: object) -> None:
        raise DidymaError(
            "immutable", f"{self!r}[...] = value", got="an assignment", want="a new tensor",
            help="dd.where(mask, value, x), or dd.scatter(x, indices, updates)",
        )  # fmt: skip

    def __delitem__(self, key: object) -> None:
        raise DidymaError(
            "immutable", f"del {self!r}[...]", got="a deletion", want="a new tensor",
            help="dd.concat of what is to stay",
        )  # fmt: skip

    if not TYPE_CHECKING:  # so that checkers report the attribute, and no array is promised

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Refuse to be called."""
            raise DidymaError(
                "bad-call", repr(self), got="a call of a tensor", want="a function or a method",
                help="x.T, x.mT, x.shape and x.ndim are no methods; x[...] takes elements",
            )  # fmt: skip

        def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
            self._no_value("np.asarray(x)")

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(f"a tensor has no attribute {name!r}")
            raise _unknown(self, name)


def _unknown(x: Refusals, name: str) -> UnknownAttribute:
    ours = face.names()
    help = _REMEDIES.get(name) or (f"dd.{name}(x, ...)" if name in ours else "")
    if not help:
        known = [n for n in dir(type(x)) if not n.startswith("_")]
        close = difflib.get_close_matches(name, known, 1)
        dotted = difflib.get_close_matches(name, ours, 1)
        help = f"x.{close[0]}" if close else f"dd.{dotted[0]}" if dotted else "see dir(didyma)"
    return UnknownAttribute(
        "unknown-attribute", f"{x!r}.{name}", got=name, want="a method of tensors", help=help
    )
