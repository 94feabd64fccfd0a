"""Damaged traces through ``didyma plan``: a coded error or a right plan, and nothing else.

    python -m tests.bench.trace_mutants --count 10000 [--rows 1000000] [--write]

Whether a plan is right is judged on the rows as another reader has them.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from didyma.commands import plan as plan_command
from didyma.oracle import placement_check
from didyma.refimpl.errors import DidymaError
from tests.mutants.memory.page import write

FIELDS = (
    "", "-1", "-0", "0", "nan", "NaN", "inf", "1e3", "0x10", "1_000", "+5", " 7 ", "7.0", "\u0663",
    str(1 << 56), str((1 << 63) - 1), str(1 << 63), str(1 << 80), "9" * 5000, "\0", "é", '"', "'3'",
)  # fmt: skip
HEADS = ("", "id,lower,upper", "a,b,c,d", "id;lower;upper;size", "id,lower,upper,size,size",
         "ID,LOWER,UPPER,SIZE", "size,upper,lower,id", "id,lower,upper,size,offset",
         "id,lower,upper,size,alignment", " id , lower , upper , size ")  # fmt: skip
Damage = Callable[[Random, bytes], bytes]


def trace(r: Random) -> bytes:
    """Write a sound trace."""
    lines = ["id,lower,upper,size"]
    for k in range(r.randrange(1, 14)):
        lower = r.randrange(12)
        lines.append(f"b{k},{lower},{lower + r.randrange(6)},{r.choice((0, 1, 64, 100, 4096))}")
    return ("\n".join(lines) + r.choice(("", "\n"))).encode()


def _bytes(r: Random, data: bytes) -> bytes:
    """Cut, double, move or replace a run of bytes."""
    a = r.randrange(len(data) + 1)
    b = min(len(data), a + r.choice((1, 1, 2, 5, 30)))
    at = r.randrange(len(data) + 1)
    run = data[a:b]
    match r.randrange(4):
        case 0:
            return data[:a] + data[b:]
        case 1:
            return data[:b] + run + data[b:]
        case 2:
            return data[:at] + run + data[at:]
        case _:
            return data[:a] + r.randbytes(len(run)) + data[b:]


def _field(r: Random, data: bytes) -> bytes:
    """Replace a field, or add or drop one."""
    rows = [line.split(b",") for line in data.split(b"\n")]
    row = r.choice(rows[1:] or rows)
    k = r.randrange(len(row))
    match r.randrange(5):
        case 0:
            row.insert(k, b"3")
        case 1:
            del row[k]
        case _:
            row[k] = r.choice(FIELDS).encode()
    return b"\n".join(b",".join(row) for row in rows)


def _line(r: Random, data: bytes) -> bytes:
    """Drop, double or move a line, or turn a life round."""
    lines = data.split(b"\n")
    k = r.randrange(len(lines))
    line = lines.pop(k)
    match r.randrange(4):
        case 0:
            return b"\n".join(lines)
        case 1:
            lines[k:k] = [line, line]
        case 2:
            lines.insert(r.randrange(len(lines) + 1), line)
        case _:
            cells = line.split(b",")
            cells[1:3] = cells[2:0:-1]
            lines.insert(k, b",".join(cells))
    return b"\n".join(lines)


def _head(r: Random, data: bytes) -> bytes:
    """Another first line."""
    rest = data.split(b"\n", 1)[1:]
    return b"\n".join([r.choice(HEADS).encode(), *rest])


def _form(r: Random, data: bytes) -> bytes:
    """Another way of writing it: ends of lines, marks, quotes, encodings."""
    match r.randrange(8):
        case 0:
            return data.replace(b"\n", b"\r\n")
        case 1:
            return data.replace(b"\n", b"\r")
        case 2:
            return b"\xef\xbb\xbf" * r.randrange(1, 3) + data
        case 3:
            return data.decode(errors="replace").encode("utf-16")
        case 4:
            return data.replace(b"b", b'"b', r.randrange(1, 3))
        case 5:
            return data.replace(b"\n", b"\n\n")
        case 6:
            return b""
        case _:
            return r.randbytes(r.randrange(1, 300))


DAMAGE: Sequence[Damage] = (_bytes, _bytes, _field, _field, _field, _line, _line, _head, _form)


def damaged(seed: int) -> bytes:
    """Return a sound trace with up to three kinds of damage done to it."""
    r = Random(seed)
    data = trace(r)
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        data = r.choice(DAMAGE)(r, data)
    return data


def rows_of(data: bytes) -> dict[str, Mapping[str, int]]:
    """Rows by id, read by the book; ValueError or KeyError where they cannot be."""
    text = data.decode().removeprefix("\ufeff")
    found: dict[str, Mapping[str, int]] = {}
    for row in csv.DictReader(io.StringIO(text, newline=""), strict=True, skipinitialspace=False):
        cells = {k.strip(): v.strip() for k, v in row.items()}
        name = cells.pop("id")
        if name in found:
            raise ValueError(f"{name} twice")
        found[name] = {k: int(v) for k, v in cells.items() if v or k in ("lower", "upper", "size")}
    return found


def faults(data: bytes, said: str) -> list[str]:
    """What is wrong with a plan of a trace."""
    plan = json.loads(said)
    rows = rows_of(data)
    offsets = plan["offsets"]
    if list(offsets) != list(rows):
        return [f"other buffers than {list(rows)}"]
    columns = {c: [r.get(c, other) for r in rows.values()]
               for c, other in (("lower", 0), ("upper", 0), ("size", 0), ("alignment", 1),
                                ("offset", -1))}  # fmt: skip
    found = placement_check.check(
        columns["lower"], columns["upper"], columns["size"], list(offsets.values()),
        alignment=columns["alignment"], fixed=columns["offset"], capacity=None, peak=plan["peak"],
    )  # fmt: skip
    return [f"{f.kind}: {f.message}" for f in found]


def run(file: Path, data: bytes, planner: str) -> str:
    """Plan a damaged trace; the code of the error, or ``planned``.  AssertionError: a wrong plan.

    Whatever else is raised is a fault of the reader.
    """
    file.write_bytes(data)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            code = plan_command.plan(file, planner, None, (), 1.0, None, True)
    except DidymaError as e:
        return e.code if e.where else f"{e.code} of no place"
    assert code == 0, (code, data)
    assert not (found := faults(data, out.getvalue())), (found, data)
    return "planned"


def absurd(count: int) -> float:
    """Plan a sound trace of so many rows, and refuse one whose last row is not; the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "long.csv"
        rows = (f"b{k},{k},{k + 3 + k % 7},{64 * (1 + k % 5)}" for k in range(count))
        data = "\n".join(["id,lower,upper,size", *rows]).encode()
        began = time.process_time()
        assert run(file, data, "didyma") == "planned"
        assert run(file, data + f"\nlast,0,1,{1 << 80}".encode(), "didyma") == "bad-size"
        whole = "\n".join(f"c{k},0,1,{1 << 55}" for k in range(4)).encode()
        assert run(file, data + b"\n" + whole, "didyma") == "bad-size"
        return time.process_time() - began


def table(count: int) -> str:
    """Give damaged traces to ``didyma plan``; the outcomes as a table.

    SystemExit at the first trace that is neither refused nor planned rightly.
    """
    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            data = damaged(seed)
            try:
                planner = ("greedy_by_size", "didyma")[seed % 2]
                said[run(Path(folder) / "trace.csv", data, planner)] += 1
            except Exception as e:
                raise SystemExit(f"seed {seed}: {type(e).__name__}: {e}\n{data!r}") from e
    rows = [f"| {code} | {n:,} |" for code, n in said.most_common()]
    return "\n".join(["| outcome | traces |", "|---|---|", *rows, f"| all | {count:,} |"])


def main() -> None:
    """Damage traces; exit code 1 at the first that is neither refused nor planned rightly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=0, help="also plan a trace of so many rows")
    parser.add_argument("--write", action="store_true", help="keep the table on the page")
    a = parser.parse_args()
    report = table(a.count)
    if a.rows:
        report += (
            f"\n\nA trace of {a.rows:,} rows, planned and twice refused: {absurd(a.rows):.0f} s."
        )
    print(report)
    if a.write:
        write("traces", report)


if __name__ == "__main__":
    main()
