"""Each step has goldens of its text: a function, a schedule, and what it makes or is refused with.

``python -m tests.codegen.schedule.steps.test_golden`` writes the last part of each file anew; read
the difference before you commit it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule.steps.apply import run, scheduled
from didyma.codegen.schedule.steps.kernels import kernels
from didyma.codegen.schedule.steps.records import reassociates
from didyma.codegen.schedule.steps.text import FORMS, parse, show
from didyma.fuzz import values
from didyma.oracle import lanes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.loop import RANK, For, PrimFunc
from didyma.refimpl.ir.target import PORTABLE, SM_90A, Target
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.text import show as show_functions
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws

HERE = Path(__file__).parent / "golden"
BAR = "=====\n"
CASES = sorted(p.stem for p in HERE.glob("*.txt"))


def parts(name: str) -> tuple[PrimFunc, str, str]:
    func, schedule, result = (HERE / f"{name}.txt").read_text().split(BAR)
    (f,) = parse_loop(func)
    laws.verify(f)
    return f, schedule, result


def target(name: str) -> Target:
    """Return what a case relies on: clusters, where its name says so."""
    return SM_90A if "sm_90a" in name else PORTABLE


def outcome(name: str) -> str:
    f, text, _ = parts(name)
    try:
        s = parse(text, f"{name}.dys")
        for applied in run(s.steps, f, target(name), on_error=s.at):
            f = applied.func
    except DidymaError as e:
        return f"{e}\n"
    return show_functions(f)


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    assert outcome(name) == parts(name)[2]


def bound(f: PrimFunc) -> list[For]:
    return [s for s in stmts(f.body) if isinstance(s, For) and s.axis]


def buffers(f: PrimFunc, env: dict[str, int], seed: int) -> dict[str, Array]:
    return {
        b.name: values.array(
            seed + n, b.dtype, dims.values(b.shape, env), None, values.Distribution.SMALL
        )
        for n, b in enumerate(f.params)
    }


@pytest.mark.parametrize("name", [n for n in CASES if "refused" not in n])
def test_meaning(name: str) -> None:
    """The result does the same on both interpreters and on engines, at the ends of all ranges."""
    f, text, _ = parts(name)
    steps = parse(text).steps
    g = scheduled(steps, f, target(name))
    on = ("simt",) if any(s.axis == RANK for s in bound(g)) else ("host", "simt")
    for env in ({d.name: d.lo for d in f.dims}, {d.name: min(d.hi, 37) for d in f.dims}):
        want, slow, fast = (buffers(f, env, 1) for _ in range(3))
        lanes.run(f, want, env)
        definition.run(g, slow, env)
        lanes.run(g, fast, env)
        for b in f.params:
            assert np.array_equal(slow[b.name], fast[b.name], equal_nan=b.dtype.is_float)
        for got in (fast, *(launched(g, engine(e), env) for e in on)):
            for b in f.params:
                if any(map(reassociates, steps)) and b.dtype.is_float:
                    assert np.allclose(got[b.name], want[b.name], rtol=1e-5)
                else:
                    assert got[b.name].tobytes() == want[b.name].tobytes()


def launched(g: PrimFunc, on: Engine, env: dict[str, int]) -> dict[str, Array]:
    """Return the buffers after the kernels of a function have run on an engine."""
    compiled, given = cuda.emit(kernels(g)), buffers(g, env, 1)
    loaded = on.load(compiled)
    held = {n: on.upload(a) for n, a in given.items()}
    for b in scratch(kernels(g), held):
        held[b.name] = on.allocate(int(np.prod(dims.values(b.shape, env))) * b.dtype.nbytes)
    for k, s in zip(kernels(g), compiled.kernels, strict=True):
        loaded.launch(s.name, [held[b.name] for b in k.params], env)
    found = {b.name: on.download(held[b.name], b.dtype, given[b.name].shape) for b in g.params}
    for x in held.values():
        on.free(x)
    return found


def test_every_step_has_a_result_and_a_refusal() -> None:
    refused = {n.partition("-")[0] for n in CASES if "refused" in n}
    made = {n.partition("-")[0] for n in CASES if "refused" not in n}
    assert made == refused == set(FORMS)


CODES = {
    "bind-refused-axis": "bad-step", "fuse-refused": "not-nested", "inline-refused": "dependence",
    "inline-refused-name": "no-such-value", "join-refused": "dependence",
    "reorder-refused": "dependence", "split-refused": "indivisible",
    "split-refused-consumed": "no-such-loop", "split-refused-name": "name-taken",
    "compute_at-refused": "dependence", "rfactor-refused": "not-a-fold",
    "rfactor-refused-unmerged": "not-a-fold", "rfactor-refused-place": "not-a-fold",
    "rfactor-refused-start": "not-a-fold", "rfactor-refused-parallel": "bad-step",
    "reduce_across-refused-start": "not-a-fold", "reduce_across-refused-around": "bad-step",
    "reduce_across-refused-grid": "bad-step", "reduce_across-refused-tile": "dependence",
    "reduce_across-refused-shared": "bad-step",
    "reduce_across-refused-dependence": "dependence",
    "stage-refused-region": "no-region", "stage-refused-cluster": "target-lacks",
    "stage-refused-place": "no-region", "bind-refused-dependence": "dependence",
    "fuse-refused-extent": "bad-step", "inline-refused-buffer": "dependence",
    "join-refused-extent": "dependence", "parallel-refused": "dependence",
    "pipeline-refused-dependence": "dependence", "split-refused-extent": "dependence",
    "stage-refused-shared": "bad-step", "swizzle-refused-name": "no-such-value",
    "tensorize-refused": "bad-step", "tensorize-refused-name": "no-such-value",
    "tile-refused": "dependence", "unroll-refused-name": "no-such-loop",
    "vectorize-refused": "dependence", "reduce_across-refused-cluster": "target-lacks",
    "bind-refused-cluster": "target-lacks", "bind-refused-sm_90a-blocks": "L-cluster",
    "reduce_across-refused-sm_90a-blocks": "bad-step",
    "stage-refused-sm_90a-blocks": "bad-step",
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_a_refusal_has_a_code(name: str) -> None:
    assert parts(name)[2].startswith(f"{CODES[name]} at ")


@pytest.mark.parametrize("name", [n for n, code in CODES.items() if code == "dependence"])
def test_a_refusal_names_two_accesses_and_their_dependence(name: str) -> None:
    (got,) = re.findall(r"got:  (.*)", parts(name)[2])
    access = r"`.+` (reads|writes) (\w+)"
    found = re.fullmatch(
        rf"{access}, then {access}: (flow|anti|output) dependence(, carried by loop \w+)?", got
    )
    assert found is not None
    first, buffer, second, other, kind, _ = found.groups()
    assert buffer == other
    assert (first, second) == {
        "flow": ("writes", "reads"), "anti": ("reads", "writes"), "output": ("writes", "writes"),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_reads_back_what_it_shows(name: str) -> None:
    _, text, _ = parts(name)
    try:
        steps = parse(text).steps
    except DidymaError:
        return
    assert parse(show(steps, "f")).steps == steps


if __name__ == "__main__":
    for case in CASES:
        path = HERE / f"{case}.txt"
        path.write_text(path.read_text().rpartition(BAR)[0] + BAR + outcome(case))
