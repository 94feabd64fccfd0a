"""The kinds of faults planted in the texts of templates, and which of them the tests plant.

The tests plant the first of each kind; ``python -m tests.bench.template_faults`` plants them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Kinds, with words of which one is in the name of a fault; the first that fits counts.
KINDS: Mapping[str, tuple[str, ...]] = {
    "swizzle": ("swizzle", "panel", "pieces"),
    "phase": ("phase", "stage", "turns"),
    "wait": ("wait", "barrier", "released", "refilled", "arrivals", "commit", "is read", "fence"),
    "tail": ("tail", "last tile", "bytes"),
    "mask": ("mask", "sees", "whole", "all see", "unseen", "first tile", "last row"),
    "epilogue": ("epilogue", "rows", "columns", "exchange"),
    "accumulator": ("narrow", "sum", "total", "rounding", "scal"),
}
OTHER = "other"


def kind(fault: str) -> str:
    """Return of which kind a fault is, by its name.

    >>> kind("wait for room"), kind("k-tail"), kind("batch")
    ('wait', 'tail', 'other')
    """
    return next((k for k, words in KINDS.items() if any(w in fault for w in words)), OTHER)


def one_of_each(faults: Iterable[str]) -> list[str]:
    """Return the first fault of each kind.

    >>> one_of_each(["wait for room", "batch", "wait for keys", "k-tail"])
    ['wait for room', 'batch', 'k-tail']
    """
    first: dict[str, str] = {}
    for fault in faults:
        first.setdefault(kind(fault), fault)
    return [*first.values()]
