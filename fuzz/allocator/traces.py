"""Random problems of one arena, and traces as text, of the shapes that break planners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from didyma.codegen.memory.arena.problem import FREE, Problem, lower_bound, problem

SIZES = (64, 256, 100, 1, 0, 4096, 255, 257, 1 << 20, 12)


def arena(seed: int, most: int = 40) -> Problem:
    """Make the random problem of a seed: lives that touch, equal and jittered sizes, empties."""
    r = Random(seed)
    count = r.randint(1, most) * r.choice((1,) * 15 + (5,))  # now and then some hundreds
    lower, upper = _lives(r, count)
    size = _sizes(r, count)
    alignment: int | list[int] = r.choice((1, 1, 16, 256))
    if r.random() < 0.2:
        alignment = [r.choice((1, 2, 64, 256)) for _ in range(count)]
    names = [f"b{i}" for i in range(count)]
    r.shuffle(names)
    return problem(lower, upper, size, names=names, alignment=alignment)


def twins(seed: int) -> Problem:
    """Make a small problem whose buffers have few lives and few sizes, so that many are twins."""
    r = Random(seed)
    count = r.randint(3, 6)
    lives = [sorted(r.sample(range(5), 2)) for _ in range(r.randint(1, 3))]
    lower, upper = zip(*(r.choice(lives) for _ in range(count)), strict=True)
    size = [r.choice((1, 2, 3, 4, 6)) for _ in range(count)]
    alignment: int | list[int] = r.choice((1, 1, 2, 4))
    if r.random() < 0.4:
        alignment = [r.choice((1, 1, 2, 4)) for _ in range(count)]
    return problem(lower, upper, size, alignment=alignment)


def _lives(r: Random, count: int) -> tuple[list[int], list[int]]:
    """Lives of one of the patterns of programs; now and then one is empty."""
    end = r.choice((4, count, 2 * count))
    pattern = r.randrange(4)
    lower: list[int] = []
    upper: list[int] = []
    for i in range(count):
        at = r.randrange(end + 1)
        match pattern:
            case 0:  # a chain: each begins where the one before ends
                low, high = i, i + 1 + r.choice((0, 0, 0, 1, 4))
            case 1:  # forward, then backward
                low, high = i // 2, 2 * count - i // 2
            case 2:
                low, high = at, at + 1 + int(r.expovariate(1 / 4))
            case _:
                low, high = sorted((at, r.randrange(end + 1)))
        lower.append(low)
        upper.append(high)
    return lower, upper


def _sizes(r: Random, count: int) -> list[int]:
    few = [r.choice(SIZES) for _ in range(r.choice((1, 2, 4)))]
    jitter = r.choice((0, 0, 3, 512))
    return [r.choice(few) + (r.randrange(jitter + 1) if jitter else 0) for _ in range(count)]


def fixed(seed: int, place: Callable[[Problem], Sequence[int]]) -> Problem:
    """Make a problem some of whose buffers are fixed where a placement has them."""
    p = arena(seed)
    r = Random(seed)
    aside = 256 * r.randrange(3)
    at = [o + aside for o in place(p)]
    share = r.choice((0.1, 0.5, 1.0))
    kept = [o if r.random() < share else FREE for o in at]
    return problem(p.lower, p.upper, p.size, names=p.names, alignment=p.alignment, fixed=kept)


def bounded(p: Problem, seed: int) -> Problem:
    """Give a problem a capacity at its lower bound, beneath it, or well above."""
    bound = lower_bound(p)
    capacity = Random(seed).choice((bound, 2 * bound + 4096, max(0, bound - 1)))
    return problem(
        p.lower, p.upper, p.size, names=p.names, alignment=p.alignment, fixed=p.fixed,
        capacity=capacity,
    )  # fmt: skip


Row: TypeAlias = tuple[str, int, int, int]  # name, lower, upper, size


@dataclass(frozen=True, slots=True)
class Text:
    """A trace as text and the rows it holds: None where it must be refused; ``any`` where it may
    hold anything, and either will do.
    """

    text: str
    rows: tuple[Row, ...] | None
    any: bool = False


def text(seed: int) -> Text:
    """Write the random trace of a seed, sound or not."""
    r = Random(seed)
    rows = [_row(r, i) for i in range(r.randrange(1, 12))]
    head = ["id", "lower", "upper", "size"]
    cells = [[name, str(a), str(b), str(n)] for name, a, b, n in rows]
    sound = r.random() < 0.35 or _spoil(r, head, cells)
    order = list(range(len(head)))
    if r.random() < 0.2:
        r.shuffle(order)
    table = [head, *cells]
    end = r.choice(("\n", "\r\n"))
    fits = all(len(row) == len(head) for row in table)
    lines = [",".join(row[k] for k in order) if fits else ",".join(row) for row in table]
    written = end.join(lines) + r.choice((end, ""))
    if r.random() < 0.1:
        written = "\ufeff" + written
    if r.random() < 0.15:
        return Text(_scratched(r, written), None, any=True)
    return Text(written, tuple(rows) if sound else None)


def _row(r: Random, i: int) -> Row:
    lower = r.randrange(12)
    return f"b{i}", lower, lower + r.choice((0, 1, 1, 2, 5)), r.choice(SIZES)


def _spoil(r: Random, head: list[str], cells: list[list[str]]) -> bool:
    """Make one thing wrong; False, for what is wrong is never sound."""
    row = r.choice(cells)
    match r.choice((0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7)):
        case 0:  # the range is inverted
            row[1], row[2] = "9", "3"
        case 1:
            row[3] = r.choice(("-1", "-4096", str(1 << 60), "1" * 30))
        case 2:
            row[r.randrange(1, 4)] = r.choice(
                ("", "x", "1.5", "1e3", "0x10", "\u0663", "--1", "nan")
            )
        case 3:
            cells.append([*row])
        case 4:
            del head[r.randrange(4)]
        case 5:
            head[r.randrange(4)] = r.choice(("begin", "", "size ,", "id"))
            if head == ["id", "lower", "upper", "size"]:
                head[1] = "start"
        case 6:
            row.append("7")
        case _:
            del row[-1]
    return False


def _scratched(r: Random, written: str) -> str:
    """Return a text with some of its characters changed."""
    chars = list(written)
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(chars) + 1)
        match r.randrange(3):
            case 0:
                chars.insert(at, r.choice('",\n\r\0-9\t \u00e9\u2028;'))
            case 1:
                del chars[at : at + r.randrange(1, 9)]
            case _:
                chars[at:at] = chars[max(0, at - 9) : at]
    return "".join(chars)
