"""Calls of public functions, checked against their signatures and annotations.

A wrong call raises DidymaError ``bad-call`` with the signature, so that no mistake of a user ends
in an error of Python's.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import sympy

from didyma.composites.builder import Builder
from didyma.functions.complex_pairs import Complex, mark, refusal
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType
from didyma.tracer.calling import SPELLINGS
from didyma.tracer.tensor import Tensor
from didyma.tracer.types import Element, Size

P = ParamSpec("P")
R = TypeVar("R")

# Modules whose functions move pairs, or know what they are.
PARTWISE = ("complex", "creation", "dtypes", "elementwise", "fft", "joining", "shaping")


class _Unfit(Exception):
    """A value is not what an annotation says."""


def public(f: Callable[P, R]) -> Callable[P, R]:
    """Check calls of a function: arguments must bind, and be what its annotations say.

    NumPy arrays are taken for tensors, NumPy's scalars and dtypes for Python's and ours, lists for
    tuples.  A wrong call raises DidymaError ``bad-call``.
    """
    signature = inspect.signature(f)
    hints = get_type_hints(f)
    moves = f.__module__.rpartition(".")[2] in PARTWISE
    kinds = {name: p.kind for name, p in signature.parameters.items()}

    @functools.wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise _misuse(f, signature, str(e), kwargs) from None
        for name, value in bound.arguments.items():
            hint = hints[name]
            try:
                if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(fitted(v, hint) for v in value)
                else:
                    bound.arguments[name] = fitted(value, hint)
            except _Unfit:
                raise _unfit(f, signature, name, value, hint) from None
        if not moves and any(isinstance(v, Complex) for v in _flat(bound.args)):
            raise refusal(f"complex numbers given to {place(f)}", "see dd.complex")
        return f(*bound.args, **bound.kwargs)

    return call


def place(f: Callable[..., Any]) -> str:
    """Return a public function's name as users write it.

    >>> from didyma import fft
    >>> from didyma.functions import shaping
    >>> place(fft.fft), place(shaping.reshape)
    ('dd.fft.fft', 'dd.reshape')
    """
    module = f.__module__.rpartition(".")[2]
    spaces = ("complex", "fft", "linalg", "signal")
    return f"dd.{module}.{f.__name__}" if module in spaces else f"dd.{f.__name__}"


def wrong(where: str, got: str, want: str, help: str = "") -> DidymaError:
    """Error for a call whose arguments do not fit together."""
    return DidymaError("bad-call", where, got=got, want=want, help=help)


def usage(f: Callable[..., Any], signature: inspect.Signature) -> str:
    """Return how a function is called, without annotations."""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = f"{place(f)}{inspect.Signature(plain)}"
    return re.sub(r"Element\(dtype=<DType\.\w+: '(\w+)'>\)", r"dd.\1", text)


def _misuse(
    f: Callable[..., Any], signature: inspect.Signature, got: str, arguments: Mapping[str, Any]
) -> DidymaError:
    names = list(signature.parameters)
    advice = ""
    for name in arguments:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            meant = SPELLINGS.get(name, "")
            meant = meant if meant in names else close[0] if close else ""
            advice = f"{name} is called {meant} here" if meant else f"there is no {name}"
            break
    return wrong(place(f), got.removeprefix("got "), usage(f, signature), advice)


def _unfit(
    f: Callable[..., Any], signature: inspect.Signature, name: str, value: object, hint: Any
) -> DidymaError:
    advice = usage(f, signature)
    if _listed(value) and "Tensor" in described(hint):
        advice += "; dd.asarray makes a tensor of a list of numbers"
    got = f"{name} = {reprlib.repr(value)}, a {type(value).__name__}"
    return wrong(place(f), got, f"{name}: {described(hint)}", advice)


def described(hint: Any) -> str:
    """Return an annotation for people.

    >>> described(Sequence[int] | None)
    'Sequence[int] | None'
    """
    if isinstance(hint, type) and get_origin(hint) is None:
        return "None" if hint is NoneType else hint.__name__
    text = str(hint).replace("NoneType", "None")
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)


def fitted(value: Any, hint: Any) -> Any:
    """Return a value as an annotation wants it; raise ``_Unfit`` where it cannot be."""
    origin = get_origin(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return value
    if origin in (Union, UnionType):
        return _of_several(value, get_args(hint))
    if origin is Literal:
        return _when(value, value in get_args(hint))
    if origin in (tuple, Sequence):
        return _many(value, origin, get_args(hint))
    if origin is not None:
        return _when(value, isinstance(value, origin))
    return _single(value, hint)


def _flat(args: Sequence[Any]) -> Iterator[Any]:
    for a in args:
        yield from a if isinstance(a, tuple) else (a,)


def _when(value: Any, fits: bool) -> Any:
    if not fits:
        raise _Unfit
    return value


def _of_several(value: Any, hints: Sequence[Any]) -> Any:
    if any(type(value) is h for h in hints):
        return value
    for hint in hints:
        try:
            return fitted(value, hint)
        except _Unfit:
            continue
    raise _Unfit


def _listed(value: object) -> bool:
    return isinstance(value, (tuple, list, range))


def _many(value: Any, origin: Any, hints: Sequence[Any]) -> tuple[Any, ...]:
    if not _listed(value):
        raise _Unfit
    if origin is tuple and not (len(hints) == 2 and hints[1] is Ellipsis):
        if len(value) != len(hints):
            raise _Unfit
        return tuple(fitted(v, h) for v, h in zip(value, hints, strict=True))
    return tuple(fitted(v, hints[0]) for v in value)


ARRAYS: tuple[type[Any], ...] = (np.ndarray, np.generic)
_BOOLS: tuple[type[Any], ...] = (bool, np.bool_)
_INTS: tuple[type[Any], ...] = (int, np.integer)
_FLOATS: tuple[type[Any], ...] = (float, np.floating)


def _single(value: Any, hint: Any) -> Any:
    if hint is Tensor and isinstance(value, ARRAYS):
        return constant(np.asarray(value))
    if isinstance(value, _BOOLS):
        return _when(bool(value), hint in (bool, object))
    if hint in (int, float) and isinstance(value, _INTS):
        return int(value)
    if hint is float and isinstance(value, _FLOATS):
        return value if isinstance(value, float) else float(value)
    if isinstance(value, sympy.Expr):
        return _when(value, hint in (Size, sympy.Expr, object))
    return _element(value) if hint is Element else _when(value, isinstance(value, hint))


def _element(value: Any) -> Element:
    """Return an element type of ours, of NumPy's, or of its name."""
    if isinstance(value, Element):
        return value
    if isinstance(value, DType):
        return Element(value)
    ours = isinstance(value, str) and value in set(DType)
    try:
        theirs = np.dtype(_when(value, value is not None))
    except (TypeError, ValueError):
        theirs = None
    if ours:
        # "i8" counts bits here and bytes in NumPy.
        return Element(DType(_when(value, theirs in (None, DType(value).numpy))))
    short = isinstance(value, str) and theirs is not None and theirs.name != value
    if theirs is None or short or theirs not in _DTYPES:
        raise _Unfit
    return Element(_DTYPES[theirs])


_DTYPES: Mapping[np.dtype[Any], DType] = {d.numpy: d for d in DType}


def constant(array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor that any traced function can take in.

    Complex numbers become pairs of f32 or f64.  DidymaError ``bad-call`` for a dtype that no tensor
    has.
    """
    b = Builder(loose=True)
    if array.dtype.kind == "c":
        double = array.dtype == np.complex128
        pairs = np.stack([array.real, array.imag], -1).astype(np.float64 if double else np.float32)
        return mark(Tensor(b, b.constant(pairs)))
    try:
        return Tensor(b, b.constant(array))
    except KeyError:
        got = f"an array of {array.dtype}"
        raise wrong("dd.asarray", got, f"one of {', '.join(DType)}") from None
