"""What tuning found: as a record of JSON types, and as a table made from that record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.table import Table

from didyma.codegen.select.cache import Pick
from didyma.codegen.select.choosers import Request
from didyma.codegen.select.selector import Selection, Trial
from didyma.show.console import console, line, put

Record: TypeAlias = Mapping[str, Any]

SHOWN = 10  # trials of one function, printed


def record(request: Request, pick: Pick, found: Selection | None) -> dict[str, Any]:
    """Return what is picked for a function, and all trials if it was tuned now.

    Times are in seconds; ``usual`` is that of the choice which the model ranks first.
    """
    return {
        "function": request.name,
        "sizes": [list(a.sizes) for a in request.key.arguments],
        "dims": dict(request.env),
        "key": pick.key,
        "choice": pick.choice,
        "seconds": pick.seconds,
        "usual": pick.usual,
        "from_cache": found is None,
        "spent": round(found.spent, 3) if found else 0.0,
        "trials": [_trial(t) for t in _sorted(found.trials)] if found else [],
    }


def _sorted(trials: Sequence[Trial]) -> list[Trial]:
    """Return those that were timed, the fastest first, then the right ones, then the others."""
    late = float("inf")
    return sorted(trials, key=lambda t: (bool(t.reason), late if t.seconds is None else t.seconds))


def _trial(t: Trial) -> dict[str, Any]:
    return {"choice": t.choice, "seconds": t.seconds, "reason": t.reason}


def table(r: Record) -> None:
    """Print the table of one function: time, share of the best, schedule."""
    out = console()
    sizes = ", ".join("×".join(map(str, s)) or "scalar" for s in r["sizes"])
    line(out, f"AUTOTUNE {r['function']}({sizes})")
    rows = Table()
    rows.add_column("time", justify="right")
    rows.add_column("share of best", justify="right")
    rows.add_column("schedule")
    timed = [t for t in r["trials"] if t["seconds"] is not None and not t["reason"]]
    best = min((t["seconds"] for t in timed), default=r["seconds"])
    for t in timed[:SHOWN]:
        mark = " *" if t["choice"] == r["choice"] else ""
        rows.add_row(_time(t["seconds"]), f"{best / t['seconds']:.1%}", t["choice"] + mark)
    if timed:
        put(out, rows)
    more = len(timed) - SHOWN
    if more > 0:
        line(out, f"and {more} slower ones")
    for t in r["trials"]:
        if t["reason"]:
            line(out, f"out: {t['choice']}: {t['reason']}")
    source = ", from the cache" if r["from_cache"] else ""
    line(out, f"picked {r['choice']}{source}")
    if timed and timed[0]["choice"] != r["choice"] and r["seconds"] == r["usual"]:
        line(out, "the model's first choice, since no other is faster beyond noise")
    else:
        line(out, f"{_time(r['seconds'])}; the model's first choice takes {_time(r['usual'])}")


def _time(seconds: float) -> str:
    """Return a time with its unit.

    >>> _time(0.0321), _time(2e-6)
    ('32.1 ms', '2 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
