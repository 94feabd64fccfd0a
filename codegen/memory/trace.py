"""Live-range traces as CSV: one buffer per line, ``id,lower,upper,size``.

Lives are half-open; sizes are in bytes.  Two further columns may follow: ``alignment``, and
``offset``, which is where a buffer must be (empty: anywhere).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Protocol

from didyma.codegen.memory.arena.problem import FREE, I64, LIMIT, Problem, problem
from didyma.refimpl.errors import DidymaError

NEEDED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset")


def parse(text: str, source: str = "<trace>", capacity: int | None = None) -> Problem:
    """Read a trace; DidymaError, with ``source:line``, for an invalid line.

    >>> parse("id,lower,upper,size\\na,0,2,8\\nb,1,3,4\\n").names
    ('a', 'b')
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        return _Reader(source).read(rows, capacity)
    except csv.Error as e:
        raise DidymaError(
            "bad-trace", f"{source}:{rows.line_num}", got=str(e), want="comma-separated values"
        ) from None


class Rows(Protocol):
    """What ``csv.reader`` returns."""

    line_num: int

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.line = 1

    def fail(self, code: str, got: str, want: str, help: str = "") -> DidymaError:
        return DidymaError(code, f"{self.source}:{self.line}", got=got, want=want, help=help)

    def read(self, rows: Rows, capacity: int | None) -> Problem:
        head = [c.strip() for c in next(rows, list[str]())]
        self.columns(head)
        lines: dict[str, int] = {}
        table: list[list[int]] = []
        for row in rows:
            self.line = rows.line_num
            if not row:
                continue
            if len(row) != len(head):
                raise self.fail("bad-trace", f"{len(row)} fields", f"{len(head)}")
            cell = dict(zip(head, row, strict=True))
            name = cell["id"].strip()
            if name in lines:
                got = f"the id {name} again, first on line {lines[name]}"
                raise self.fail("duplicate-buffer", got, "one buffer an id")
            lines[name] = self.line
            table.append(self.numbers(cell))
        columns = [list(c) for c in zip(*table, strict=True)] or [[] for _ in range(5)]
        try:
            return problem(
                *columns[:3], names=tuple(lines), alignment=columns[3], fixed=columns[4],
                capacity=capacity,
            )  # fmt: skip
        except DidymaError as e:  # it knows the buffer: say the line
            self.line = lines.get(e.where, 1)
            raise self.fail(e.code, f"{e.got} ({e.where})", e.want, e.help) from None

    def columns(self, head: Sequence[str]) -> None:
        missing = [c for c in NEEDED if c not in head]
        known = {*NEEDED, *OPTIONAL}
        strange = [c for c in head if c not in known] + [c for c in known if head.count(c) > 1]
        if missing or strange:
            what = f"no column {', '.join(missing)}" if missing else f"a column {strange[0]!r}"
            want = f"a first line {','.join(NEEDED)}, and perhaps {' and '.join(OPTIONAL)}"
            raise self.fail("bad-trace", what, want)

    def numbers(self, cell: dict[str, str]) -> list[int]:
        lower, upper, size = (self.number(cell, c) for c in NEEDED[1:])
        if upper < lower:
            raise self.fail("bad-life", f"[{lower}, {upper})", "an end not before its start")
        if not 0 <= size <= LIMIT:
            raise self.fail("bad-size", f"{size} bytes", f"from 0 to {LIMIT}")
        align = self.number(cell, "alignment") if cell.get("alignment", "").strip() else 1
        offset = FREE
        if cell.get("offset", "").strip():
            offset = self.number(cell, "offset")
            if offset < 0:
                raise self.fail("bad-offset", str(offset), f"from 0 to {LIMIT}")
        return [lower, upper, size, align, offset]

    def number(self, cell: dict[str, str], column: str) -> int:
        text = cell[column].strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise self.fail("bad-number", f"{column} {text[:40]!r}", "a whole number")
        if len(digits) > 18:
            code = "bad-size" if column == "size" else "bad-number"
            raise self.fail(code, f"{column} {text[:40]}", f"at most {LIMIT}")
        return int(text)


def show(p: Problem, offsets: I64 | None = None) -> str:
    """Return the trace of a problem; ``offsets`` become its column ``offset``.

    Such a trace read again has every buffer fixed where it was placed.
    """
    aligned, placed = bool((p.alignment > 1).any()), p.fixed if offsets is None else offsets
    shown = bool((placed != FREE).any())
    out = io.StringIO()
    w = csv.writer(out, lineterminator="\n")
    w.writerow([*NEEDED, *["alignment"][:aligned], *["offset"][:shown]])
    rows = zip(p.names, *(a.tolist() for a in (p.lower, p.upper, p.size, p.alignment, placed)),
               strict=True)  # fmt: skip
    for name, low, high, size, align, at in rows:
        extra = [*[align][:aligned], *["" if at == FREE else at][:shown]]
        w.writerow([name, low, high, size, *extra])
    return out.getvalue()
