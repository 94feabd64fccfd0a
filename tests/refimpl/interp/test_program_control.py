"""Programs with blocks, arenas, streams and sizes found on the way: results, and what is caught."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import program
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.interp.program_streams import Late
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse_program, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import program as laws

HEAD = """
program @main {
  dims n in [0, 8], u in [0, 8], i in [0, 7]
  inputs (%x, %b, %s)
  types {
    %x: f32[4]  %b: bool[]  %s: i64[]  %y: f32[4]  %z: f32[4]  %v: f32[4]  %c: bool[]
    %k: i64[]  %l: i64[]  %all: f32[u, 4]  %row: f32[4]  %g: f32[u]  %h: f32[u + 1]  %e: f32[u]
  }
  kernel @inc(a: f32[4], out: f32[4]) writes (out) {
    for i in 4 bound blockIdx.x { out[i] = a[i] + 1.0:f32 }
  }
  kernel @turn(a: f32[4], out: f32[4]) writes (out) {
    for i in 4 bound blockIdx.x { out[i] = a[3 - i] }
  }
  kernel @index(out: f32[4]) writes (out) dims i in [0, 7] {
    for j in 4 bound blockIdx.x { out[j] = f32(i * 10 + j) }
  }
  kernel @none(out: i64[]) writes (out) { out[] = 0 }
  kernel @next(a: i64[], out: i64[]) writes (out) { out[] = a[] + 1 }
  kernel @below(a: i64[], s: i64[], out: bool[]) writes (out) { out[] = a[] < s[] }
  kernel @longer(a: f32[u], out: f32[u + 1]) writes (out) dims u in [0, 8] {
    for j in u + 1 bound blockIdx.x { out[j] = select(j < u, a[min(j, max(u - 1, 0))], f32(j)) }
  }
  kernel @blank(out: f32[u]) writes (out) dims u in [0, 8] {
    for j in u bound blockIdx.x { out[j] = 0.0:f32 }
  }
  lines {
"""
X = np.array([1, 2, 3, 4], np.float32)


def made(lines: str, sound: bool = True) -> Program:
    """A program of inputs x, b and s; with ``sound`` its laws are checked."""
    p = parse_program(f"{HEAD}{lines}\n  }}\n}}")
    assert parse_program(show(p)) == p
    if sound:
        laws.verify(p)
    return p


def run(
    lines: str, b: bool = True, s: int = 3, sound: bool = True, late: Late | None = None
) -> list[Array]:
    return program.run(made(lines, sound), [X, np.array(b), np.array(s)], late=late)


def fault(lines: str, kind: str, b: bool = True, s: int = 3, late: Late | None = None) -> None:
    with pytest.raises(ProgramFault) as e:
        run(lines, b, s, sound=False, late=late)
    assert e.value.kind == kind, e.value


BRANCHES = """
allocate %y
if %b {
  launch @inc(%x, %y)
} else {
  allocate %z
  launch @inc(%x, %z)
  launch @inc(%z, %y)
  free %z
}
return (%y)
"""


def test_branches() -> None:
    assert run(BRANCHES, b=True)[0].tolist() == [2, 3, 4, 5]
    assert run(BRANCHES, b=False)[0].tolist() == [3, 4, 5, 6]


LOOP = """
allocate %y
copy %y from %x
allocate %k
launch @none(%k)
allocate %c
while %c after {
  launch @below(%k, %s, %c)
} do {
  allocate %z
  launch @inc(%y, %z)
  copy %y from %z
  free %z
  allocate %l
  launch @next(%k, %l)
  copy %k from %l
  free %l
}
free %c
return (%y, %k)
"""


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_rounds(rounds: int) -> None:
    y, k = run(LOOP, s=rounds)
    assert y.tolist() == [1 + rounds, 2 + rounds, 3 + rounds, 4 + rounds]
    assert k == rounds


def test_rounds_without_end_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_ROUNDS", 10)
    fault(LOOP, "endless", s=1000)
    fault(LOOP.replace("copy %k from %l", ""), "endless")


ROWS = """
bind u = %s
allocate %all
repeat i in u {
  view %row of %all at 16*i
  launch @index(%row)
}
return (%all)
"""


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows_of_a_whole(rows: int) -> None:
    (found,) = run(ROWS, s=rows)
    assert found.tolist() == [[10 * r + j for j in range(4)] for r in range(rows)]


def test_a_size_outside_its_range() -> None:
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        run(ROWS, s=9)
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        run(ROWS, s=-1)


def test_rows_beyond_the_whole() -> None:
    fault(ROWS.replace("at 16*i", "at 16*i + 16"), "capacity")


GROWS = """
allocate %v
copy %v from %x
carry (%g from %v) dims (u = 4)
allocate %k
launch @none(%k)
allocate %c
while %c after {
  launch @below(%k, %s, %c)
} do {
  allocate %h
  launch @longer(%g, %h)
  carry (%g from %h) dims (u = u + 1)
  allocate %l
  launch @next(%k, %l)
  copy %k from %l
  free %l
}
return (%g)
"""


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_values_that_grow(rounds: int) -> None:
    assert run(GROWS, s=rounds)[0].tolist() == [1, 2, 3, 4, *range(4, 4 + rounds)]


def test_growth_beyond_the_range() -> None:
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        run(GROWS, s=5)


def test_a_value_of_yesterdays_size() -> None:
    old = GROWS.replace("allocate %k\n", "allocate %e\nlaunch @blank(%e)\nallocate %k\n")
    old = old.replace("return (%g)", "return (%g, %e)")
    run(old, s=0, sound=False)
    fault(old, "stale", s=1)


ARENA = """
arena %m of 768
place %y in %m at 0
launch @inc(%x, %y)
place %z in %m at 256
launch @inc(%y, %z)
free %y
place %v in %m at 0
launch @inc(%z, %v)
return (%v)
"""


def test_an_arena() -> None:
    assert run(ARENA)[0].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("free %y\n", "", "ownership"),  # its bytes are asked for while it is alive
        ("%m at 256", "%m at 0", "ownership"),
        ("%m at 256", "%m at 128", "capacity"),
        ("%m at 256", "%m at 768", "capacity"),
        ("return (%v)", "return (%v, %y)", "ownership"),
        ("arena %m of 768\n", "", "unallocated"),
    ],
)
def test_arenas_out_of_order(old: str, new: str, kind: str) -> None:
    assert old in ARENA
    fault(ARENA.replace(old, new), kind)


def test_what_was_freed_in_an_arena_is_poison() -> None:
    lost = ARENA.replace("launch @inc(%z, %v)", "")
    assert np.isnan(run(lost, sound=False)[0]).all()


IN_PLACE = """
allocate %y
launch @inc(%x, %y)
launch @inc(%y, %z) inplace (%z over %y)
return (%z)
"""


def test_in_place() -> None:
    assert run(IN_PLACE)[0].tolist() == [3, 4, 5, 6]
    fault(IN_PLACE.replace("return (%z)", "return (%z, %y)"), "ownership")
    fault(IN_PLACE.replace("@inc(%y, %z)", "@turn(%y, %z)"), "in-place")
    fault("launch @inc(%x, %z) inplace (%z over %x)\nreturn (%z)", "read-only")


def test_a_block_leaves_nothing_behind() -> None:
    fault(BRANCHES.replace("  free %z\n", ""), "leak", b=False)
    fault(LOOP.replace("  free %l\n", ""), "leak")


STREAMS = """
allocate %y
allocate %z
allocate %v
launch @inc(%x, %y) stream 1
wait 2 on 1
launch @inc(%y, %z) stream 2
wait 0 on 2
launch @inc(%z, %v)
return (%v)
"""


ORDERS: tuple[Late, ...] = ("lower first", "higher first")


def test_late_work_shows_a_missing_wait() -> None:
    right = [4, 5, 6, 7]
    for late in (None, *ORDERS):
        assert run(STREAMS, late=late)[0].tolist() == right
    for wait in ("wait 2 on 1\n", "wait 0 on 2\n"):
        lacking = STREAMS.replace(wait, "")
        assert run(lacking, sound=False)[0].tolist() == right
        found = [run(lacking, sound=False, late=late)[0].tolist() for late in ORDERS]
        assert any(f != right for f in found)
        with pytest.raises(DidymaError, match="P-wait"):
            laws.verify(made(lacking, sound=False))


@pytest.mark.parametrize("lines", [BRANCHES, LOOP, ROWS, GROWS, ARENA, IN_PLACE])
def test_one_stream_is_in_order_however_late(lines: str) -> None:
    for a, b in zip(run(lines), run(lines, late="lower first"), strict=True):
        assert a.tobytes() == b.tobytes()
