"""``didyma ops``: the op table."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from didyma.commands import common
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Op
from didyma.show import ops as show


def ops(name: str | None, json: bool) -> int:
    """Print the op table, or one op."""
    if name is not None and name not in OPS:
        near = get_close_matches(name, OPS, 3)
        raise DidymaError(
            "unknown-op", name, got=name, want="the name of an op",
            help=f"did you mean {' or '.join(near)}?" if near else "`didyma ops` lists them all",
        )  # fmt: skip
    chosen = [OPS[name]] if name else [OPS[n] for n in sorted(OPS)]
    if json:
        common.print_json([record(op) for op in chosen])
    elif name:
        show.op(chosen[0])
    else:
        show.ops(chosen)
    return common.AGREE


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
