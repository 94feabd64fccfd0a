"""Intrinsics of a caller's own in texts and loops: their C for each prelude, and their NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

from didyma.codegen import plugins
from didyma.codegen.emit.intrinsics import LANES, TABLE, CFunction, c_type, components
from didyma.codegen.emit.prelude import Prelude
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.types import DType

DTYPES = (DType.F32, DType.F64)
OPERANDS = "abcdefgh"
Functions: TypeAlias = Callable[[Intrinsic, DType], Callable[..., Any]]


def given(which: Iterable[str | Intrinsic]) -> tuple[Intrinsic, ...]:
    """Return intrinsics that are given by name or as objects.

    Errors: those of ``plugins.part``; ``registered-twice`` for a name of Didyma's or of another
    intrinsic; ``bad-part`` for one without C for a prelude, or with no or too many operands.
    """
    found: dict[str, Intrinsic] = {}
    for x in (plugins.part(plugins.INTRINSICS, one, Intrinsic) for one in which):
        if x.name in found or f"{x.name}_f32" in TABLE:
            by = "another intrinsic of the kernel" if x.name in found else "didyma"
            raise plugins.twice(plugins.INTRINSICS, x.name, by)
        if {*x.text} != {"host", "cuda"} or not 1 <= x.operands <= len(OPERANDS):
            raise DidymaError(
                "bad-part", f"{plugins.INTRINSICS}: {x.name}",
                got=f"{x.operands} operands, and text for {', '.join(x.text) or 'no prelude'}",
                want=f"1 to {len(OPERANDS)} operands, and text for host and cuda",
            )  # fmt: skip
        found[x.name] = x
    return tuple(found.values())


def named(name: str) -> Intrinsic | None:
    """Return the intrinsic that is registered under a name, None if none is; errors of ``given``.

    >>> named("nobody_has_this_name") is None
    True
    """
    if plugins.value(plugins.INTRINSICS, name) is None:
        return None
    return given((name,))[0]


def table(which: Iterable[Intrinsic]) -> dict[str, CFunction]:
    """Return the C types of the functions that texts call, those of vectors among them."""
    found: dict[str, CFunction] = {}
    for x, d, lanes in product(which, DTYPES, ("", f"x{LANES}")):
        t, result = f"{c_type(d)}{lanes}", f"{c_type(x.result(d))}{lanes}"
        found[f"{x.name}_{t}"] = CFunction((t,) * x.operands, result)
    return found


def of_vectors(x: Intrinsic) -> Iterator[str]:
    """Yield C that does what an intrinsic does in each lane of vectors."""
    names = OPERANDS[: x.operands]
    for d in DTYPES:
        t, result = c_type(d), f"{c_type(x.result(d))}x{LANES}"
        params = ", ".join(f"{t}x{LANES} {n}" for n in names)
        lanes = (
            f"r.{p} = {x.name}_{t}({', '.join(f'{n}.{p}' for n in names)});"
            for p in components(LANES)
        )
        head = f"FN {result} {x.name}_{t}x{LANES}({params})"
        yield f"{head} {{ {result} r; {' '.join(lanes)} return r; }}"


def extended(prelude: Prelude, which: Sequence[Intrinsic]) -> Prelude:
    """Return a prelude that defines these intrinsics, too."""
    if not which:
        return prelude
    return prelude.extended([(x.text[prelude.target], "\n\n".join(of_vectors(x))) for x in which])


def functions(which: Iterable[Intrinsic], of: Functions) -> dict[str, Callable[..., Any]]:
    """Return what the engine ``simt`` runs for each name, by the functions of an arithmetic."""
    found: dict[str, Callable[..., Any]] = {}
    for x in which:
        for dtype in DTYPES:
            one = of(x, dtype)
            found[f"{x.name}_{c_type(dtype)}"] = one
            found[f"{x.name}_{c_type(dtype)}x{LANES}"] = _by_lanes(one)
    return found


def _by_lanes(f: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        return {p: f(*(a[p] for a in args)) for p in components(LANES)}

    return apply
