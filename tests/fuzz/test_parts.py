"""The domain of parts: what is right is found right, and slips of each kind are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from didyma.codegen import codegens, guards, intrinsics, routines, user_kernels
from didyma.codegen.emit import arithmetic, dynamic, line_map, program_json
from didyma.codegen.emit import externs as lines
from didyma.codegen.emit.plain_expressions import Expressions, Typed
from didyma.codegen.emit.prelude import groups
from didyma.codegen.passes import manager
from didyma.codegen.runtime import dlpack, externs, geometry, loop_externs, prepared, strided
from didyma.codegen.runtime.didyma_runtime import command, watch
from didyma.fuzz.domains.domain import Judge
from didyma.fuzz.domains.parts import JUDGES, Case, Parts
from didyma.refimpl.ir.expr import ONE

CASES = {"watched": 12, "modules": 12, "texts": 150, "files": 150}  # 30 of other kinds


def always(value: object) -> Callable[..., object]:
    return lambda *_: value


def as_it_is(made: Any, *_: object) -> Any:
    return made


def still(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * len(shape)


# Of each kind, a module, a name in it, and what that becomes.
SLIPS: tuple[tuple[str, Any, str, object], ...] = (
    ("kernel", user_kernels, "shared_bytes", always(0)),
    ("kernel", user_kernels, "_c", always("1")),
    ("intrinsics", intrinsics, "OPERANDS", "abbdefgh"),
    ("externs", externs, "results", as_it_is),
    ("externs", externs, "_unwritten", always(None)),
    ("externs", lines, "quoted", always("'f32'")),
    ("passes", manager, "_runs", always(True)),
    ("passes", routines, "suits", always(True)),
    ("arrays", strided, "ceildiv", always(ONE)),
    ("arrays", dlpack, "row_major", still),
    ("texts", arithmetic, "MUL", 0),
    ("texts", dynamic, "LEAST", 8),
    ("texts", line_map, "groupby", always(())),
    ("watched", watch, "nbytes_of", always(1)),
    ("watched", command, "_shown", always({})),
    ("loops", loop_externs, "registered", always({"first": abs})),
    ("files", geometry, "PIECE", 1),
    ("codegens", guards, "_require", always(None)),
    ("codegens", codegens, "_asked", always(None)),
    ("plain", Expressions, "_exchange", always(Typed("v", "f32"))),
    ("replays", prepared, "_SEEN", 1),
    ("replays", prepared, "_copy", always(None)),
    ("modules", program_json, "_externs", always({})),
    ("prelude", groups, "_DESCRIPTOR", "FN u64 descriptor__(const void *p) { return 1ull << 62; }"),
)


@pytest.fixture(scope="module")
def judge() -> Judge[Case]:
    return Parts().judge()


def found(judge: Judge[Case], kind: str) -> Iterator[str]:
    for seed in range(CASES.get(kind, 30)):
        yield from (f.message for f in judge(Case(kind, seed)).findings)


@pytest.mark.parametrize("kind", JUDGES)
def test_what_is_right_is_found_right(judge: Judge[Case], kind: str) -> None:
    assert [*found(judge, kind)] == []


def test_kinds_take_turns() -> None:
    d = Parts()
    assert [d.draw(3, i).kind for i in range(len(JUDGES))] == [*JUDGES]
    assert d.draw(3, 1) == d.draw(3, 1) != d.draw(4, 1)


@pytest.mark.parametrize(("kind", "module", "name", "becomes"), SLIPS)
def test_slips_are_found(
    judge: Judge[Case],
    kind: str,
    module: Any,
    name: str,
    becomes: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, becomes)
    assert next(found(judge, kind), "")
