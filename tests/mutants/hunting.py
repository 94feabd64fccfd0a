"""The hunt for one mutant, in a child: checks in turn until one kills it or its time is over."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.mutants.forking import Say, limit_cpu

GRACE = 10.0  # seconds of processor time, which any compile takes less than


def hunt(
    checks: Sequence[Any],  # of the module ``checks``, which may be imported again
    cases: Mapping[str, Sequence[int]],
    limits: Callable[[str], float],
    seconds: float,
    say: Say,
) -> None:
    """Judge cases until one has a finding; say what is judged, and the verdict.

    The check that has used the least time is next, so quick ones see many cases.  ``cases`` are
    those of each check that are worth judging, ``limits`` gives the processor time that a case of
    a check may take.
    """
    spent = {c.name: 0.0 for c in checks if cases.get(c.name)}
    by_name = {c.name: c for c in checks}
    judges: dict[str, Callable[[int], Any]] = {}
    done = dict.fromkeys(spent, 0)
    start = time.process_time()
    while spent and time.process_time() - start < seconds:
        name = min(spent, key=spent.__getitem__)
        began = time.process_time()
        say(("at", name, sum(done.values()) + 1, began - start))
        limit_cpu(limits(name))
        try:
            if name not in judges:
                judges[name] = by_name[name].open()
            found = judges[name](cases[name][done[name]])
        except MemoryError:
            raise
        except Exception as e:
            found = (name, "error", f"{type(e).__name__}: {e}")
        limit_cpu(0.0)
        now = time.process_time()
        done[name] += 1
        spent[name] += now - began
        if found is not None:
            say(("killed", name, sum(done.values()), now - start, *map(str, found)))
            return
        if done[name] == len(cases[name]):
            del spent[name]
    say(("survived", "", sum(done.values()), time.process_time() - start))


def fresh(name: str) -> Any:
    """Return a module, imported again if it was forgotten."""
    return importlib.import_module(name)
