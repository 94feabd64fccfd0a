"""The table of what was timed at run time, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from didyma.codegen.select.at_run import Timing

COLUMNS = (
    "function", "nest", "sizes", "kernel", "choice", "microseconds", "speedup", "picked", "reason",
)  # fmt: skip


def table(timings: Iterable[Timing]) -> str:
    """Return a CSV text with a header and a row for each variant that was tried.

    ``sizes`` are the largest of the bucket, ``microseconds`` the median of one run, and ``speedup``
    the time of the first variant as a multiple of this one's.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for t in timings:
        sizes = " ".join(f"{k}<={v}" for k, v in t.bucket)
        spent = "" if t.seconds is None else f"{t.seconds * 1e6:.3f}"
        gain = "" if t.speedup is None else f"{t.speedup:.3f}"
        picked = "yes" if t.picked else "no"
        rows.writerow(
            (t.function, t.nest, sizes, t.kernel, t.choice, spent, gain, picked, t.reason)
        )
    return out.getvalue()
