"""``didyma ops``: the op table, and the functions that are made of ops."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from didyma.commands import common
from didyma.functions import composed
from didyma.functions.composed import Composed
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Op
from didyma.show import ops as show


def ops(name: str | None, json: bool) -> int:
    """Print the op table and the names of functions, or one of either."""
    if name is None:
        return _all(json)
    if name in OPS:
        if json:
            common.print_json([record(OPS[name])])
        else:
            show.op(OPS[name])
        return common.AGREE
    function = composed.composed(name)
    if function is None:
        near = get_close_matches(name, (*OPS, *composed.names()), 3)
        raise DidymaError(
            "unknown-op", name, got=name, want="the name of an op, or of a function made of ops",
            help=f"did you mean {' or '.join(near)}?" if near else "`didyma ops` lists them all",
        )  # fmt: skip
    if json:
        common.print_json([function_record(function)])
    else:
        show.function(function)
    return common.AGREE


def _all(json: bool) -> int:
    chosen = [OPS[n] for n in sorted(OPS)]
    if json:
        common.print_json([record(op) for op in chosen])
    else:
        show.ops(chosen, composed.names())
    return common.AGREE


def function_record(f: Composed) -> dict[str, Any]:
    """Return what a function is, as JSON has it."""
    return {
        "name": f.name, "kind": "function", "doc": f.doc, "signature": f.signature,
        "ops": list(f.ops),
    }  # fmt: skip


def record(op: Op) -> dict[str, Any]:
    """Return what an op is, as JSON has it."""
    return {
        "name": op.name,
        "kind": str(op.kind),
        "doc": op.doc,
        "special": op.special,
        "operands": list(op.arity),
        "attributes": [
            {"name": a.name, "kind": a.kind, "doc": a.doc, "choices": list(a.choices)}
            for a in op.attrs
        ],
        "dtypes": [str(d) for d in op.dtypes],
    }
