"""Which results of a block may be written where they are wanted, without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.refimpl.ir.graph import CALL, CONTROL, RESHAPE_ONLY, TO, Function


def givers(f: Function, functions: Mapping[str, Function]) -> dict[str, int]:
    """Return the values of a function's nodes that own their bytes, with the node's position."""
    return {
        r: i
        for i, n in enumerate(f.nodes)
        if (n.op == CALL and RESHAPE_ONLY not in functions[n.callee].attr) or n.op in (TO, *CONTROL)
        for r in n.results
    }


def overwritten(
    body: Function,
    carried: Sequence[str],
    grows: Sequence[bool],
    functions: Mapping[str, Function],
) -> dict[str, str]:
    """Return the results of a loop's body that may be written over the carried value at once.

    That is where nothing in the body reads the carried value later.  ``carried`` are the loop's
    buffers, and ``grows`` says which of them change their size.
    """
    own = givers(body, functions)
    last, shows = _last_uses(body, functions)
    wanted: dict[str, str] = {}
    for p, value, r, growing in zip(body.params, body.results, carried, grows, strict=False):
        if growing or value not in own or value in wanted:
            continue
        readers = [last.get(v, -1) for v, of in shows.items() if of == p.name]
        if max([last.get(p.name, -1), *readers]) < own[value]:
            wanted[value] = r
    return wanted


def _last_uses(
    f: Function, functions: Mapping[str, Function]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the position of the last node that uses each value, and the value a view shows."""
    last: dict[str, int] = {}
    shows: dict[str, str] = {}
    for i, n in enumerate(f.nodes):
        for a in n.args:
            last[a] = i
        if n.op == CALL and RESHAPE_ONLY in functions[n.callee].attr:
            shows[n.results[0]] = shows.get(n.args[0], n.args[0])
    last.update(dict.fromkeys(f.results, len(f.nodes)))
    return last, shows
