"""``didyma ops``: the op table, and the functions that are made of ops."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial

from didyma.commands import common
from didyma.functions import composed
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ops import OPS
from didyma.show import ops as show


def ops(name: str | None, json: bool) -> int:
    """Print the op table and the names of functions, or one op or function in full."""
    if name is None:
        records = [show.op_record(OPS[n]) for n in sorted(OPS)]
        page = partial(show.op_table, records, composed.names())
    elif name in OPS:
        records = [show.op_record(OPS[name])]
        page = partial(show.op_page, records[0])
    elif (function := composed.composed(name)) is not None:
        records = [show.function_record(function)]
        page = partial(show.function_page, records[0])
    else:
        near = get_close_matches(name, (*OPS, *composed.names()), 3)
        raise DidymaError(
            "unknown-op", name, got=name, want="the name of an op, or of a function made of ops",
            help=f"did you mean {' or '.join(near)}?" if near else "`didyma ops` lists them all",
        )  # fmt: skip
    if json:
        common.print_json(records)
    else:
        page()
    return common.AGREE
