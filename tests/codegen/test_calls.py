"""Parts of real kernels moved into functions: every level finds the program that it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.externs import bound
from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule import schedule
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.levels import EngineBackend
from didyma.fuzz.strategies import CASES
from didyma.oracle import chains, lanes
from didyma.oracle.externs import bodies
from didyma.oracle.kernels import reads_before_it_writes
from didyma.refimpl.interp import program
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.expr import add, index
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import Block, Call, If, PrimFunc, Stmt, Store
from didyma.refimpl.ir.text import parse, parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import map_stmt, stmts
from didyma.refimpl.verify import loop as loop_laws
from didyma.refimpl.verify import program as program_laws
from didyma.refimpl.verify.sharing import may_share
from tests.codegen.emit.test_runs import MAKERS, launch
from tests.codegen.emit.test_runs import inputs as operands
from tests.codegen.outline import outlined

SEEDS = st.integers(0, 2**32)
PARTS = 4  # functions that are made of one


def divided(f: PrimFunc, r: Random) -> PrimFunc:
    for _ in range(PARTS):
        f = outlined(f, r)
    loop_laws.verify(f)
    return f


def with_calls(c: Compiled, seed: int) -> Compiled:
    """The same program, parts of whose kernels are functions."""
    r = Random(seed)
    p = replace(c.program, kernels=tuple(divided(loops(k), r) for k in c.program.kernels))
    return replace(c, program=p, text=cuda.emit(p.kernels, cuda.in_place(p)))


def bits(arrays: Sequence[Array]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


def compiled(case: Case) -> Compiled:
    return compile(case.module, case.options(Options()))


@settings(max_examples=25, deadline=None)
@given(CASES, SEEDS)
def test_a_program_of_kernels_with_calls(case: Case, seed: int) -> None:
    c = compiled(case)
    divided = with_calls(c, seed)
    program_laws.verify(divided.program)
    assert parse(show(divided.program)) == divided.program
    inputs = case.inputs()
    externs = bodies(c.fused)
    meant = bits(program.run(c.program, inputs, lanes.run, externs))
    assert bits(program.run(divided.program, inputs, lanes.run, externs)) == meant
    flat = replace(
        divided.program, kernels=tuple(expand(loops(k)) for k in divided.program.kernels)
    )
    program_laws.verify(flat)
    assert bits(program.run(flat, inputs, lanes.run, externs)) == meant


@settings(max_examples=15, deadline=None)
@given(CASES, SEEDS)
def test_engines(case: Case, seed: int) -> None:
    c = compiled(case)
    divided = with_calls(c, seed)
    externs = bound(c.fused, None)
    for name in ("host", "simt"):
        on = engine(name)
        both = (EngineBackend(on, x, externs=externs) for x in (c, divided))
        before, after = (b.run_program(case.inputs()) for b in both)
        assert bits(after) == bits(before), name


@settings(max_examples=40, deadline=None)
@given(CASES, SEEDS)
def test_what_is_read_off_a_kernel(case: Case, seed: int) -> None:
    env = dict(case.env)
    c = compiled(case)
    for before, after in zip(c.program.kernels, with_calls(c, seed).program.kernels, strict=True):
        known: Mapping[str, int] = {d.name: env.get(d.name, d.hi) for d in before.dims}
        assert chains.longest([after], known) == chains.longest([before], known)
        assert reads_before_it_writes(after) == reads_before_it_writes(before)
        for o in before.outputs:
            for i in before.inputs:
                assert may_share(after, o, i) == may_share(before, o, i)


@settings(max_examples=25, deadline=None)
@given(CASES, SEEDS)
def test_schedules(case: Case, seed: int) -> None:
    """A function with calls gets the kernels that it would get without."""
    r = Random(seed)
    for f in compiled(case).loops.values():
        before, after = (schedule(g, Options()) for g in (f, divided(f, r)))
        assert [k.attrs for k in after] == [k.attrs for k in before]
        for k in after:
            loop_laws.verify(k)


def test_a_fault_in_a_callee_is_told_by_its_own_statement() -> None:
    (f,) = parse_loop("""
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @shift(a: f32[4], b: f32[4]) writes (b) dims i in [0, 3] {
          b[i] = a[i + 1]
        }
        for k in 4 {
          call @shift(x, y) dims (k)
        }
      }""")
    loop_laws.verify(f)
    zeros = {b.name: np.zeros(4, np.float32) for b in f.params}
    with pytest.raises(KernelFault, match="out-of-bounds") as e:
        launch(engine("simt"), f, zeros, {})
    assert e.value.faults[0].node == "b[i] = a[i + 1]"


def damaged(f: PrimFunc, r: Random) -> PrimFunc:
    """Leave out a statement or a condition, or move an index by one."""
    at = r.randrange(sum(1 for _ in stmts(f.body)))
    seen = -1

    def on_stmt(s: Stmt) -> Stmt:
        nonlocal seen
        seen += 1
        if seen == at:
            match s:
                case Block(body) if body:
                    gone = r.randrange(len(body))
                    s = Block((*body[:gone], *body[gone + 1 :]))
                case If(_, then):
                    s = then
                case Store(_, (first, *rest)):
                    s = replace(s, index=(add(first, index(r.choice((-1, 1)))), *rest))
                case _:
                    pass
        return map_stmt(s, lambda e: e, on_stmt)

    return replace(f, body=on_stmt(f.body))


def outcome(f: PrimFunc, given: Mapping[str, Array], env: Mapping[str, int]) -> str | list[bytes]:
    buffers = {n: a.copy() for n, a in given.items()}
    try:
        lanes.run(f, buffers, env)
    except LoopFault as e:
        return e.kind
    return bits(list(buffers.values()))


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_faults(make: Callable[[int], PrimFunc]) -> None:
    r, kinds = Random(0), Counter[str]()
    for seed in range(60):
        f = damaged(make(seed), r)
        env = {"n": seed * 7 % 41} if f.dims else {}
        given = operands(f, env, seed)
        meant = outcome(f, given, env)
        parted = divided(f, r)
        assert outcome(expand(parted), given, env) == meant
        found = outcome(parted, given, env)
        assert found in (meant, "dim-out-of-range")
        kinds[found if isinstance(found, str) else ""] += 1
    assert len(kinds) > 1


def _calls(f: PrimFunc) -> bool:
    return any(isinstance(s, Call) for s in stmts(f.body))


def test_calls_are_made_of_most_kernels() -> None:
    r = Random(3)
    kernels = [
        loops(k)
        for _ in range(30)
        for k in with_calls(compiled(decode(r.randbytes(BYTES))), 5).program.kernels
    ]
    called = [k for k in kernels if _calls(k)]
    inner = [k for k in kernels if any(_calls(g) for g in k.functions)]
    local = [k for k in kernels if any(b.scope != "global" for g in k.functions for b in g.params)]
    assert len(called) > 0.9 * len(kernels)
    assert len(inner) > 0.3 * len(kernels)
    assert len(local) > 0.1 * len(kernels)
