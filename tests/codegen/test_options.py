"""Options: groups, paths, records of this version and the one before, and what is refused."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import fields
from typing import Any

import pytest

import didyma as dd
from didyma.codegen import options
from didyma.codegen.memory.planners import Planner
from didyma.codegen.options import DOCS, USUAL, VERSION, Options
from didyma.refimpl.errors import DidymaError
from tests.errors.test_codes import says

LOW = {"graph.fuse": False, "kernels.block": 64, "memory.planner": "none", "verify": False}


def test_a_choice_stands_in_its_group_and_has_a_path() -> None:
    nested = dd.Options(
        graph=dd.GraphOptions(fuse=False),
        kernels=dd.KernelOptions(block=64),
        memory=dd.MemoryOptions(planner="none"),
        verify=False,
    )
    assert dd.Options().changed(LOW) == nested
    assert {p: v for p, v in nested.choices().items() if v != USUAL[p]} == LOW
    assert eval(repr(nested), {**vars(options)}) == nested
    assert pickle.loads(pickle.dumps(nested)) == nested


def test_every_choice_is_described_once() -> None:
    names = [f.name for g in (Options().graph, Options().kernels, Options().memory)
             for f in fields(g)]  # fmt: skip
    assert [p.rpartition(".")[2] for p in DOCS] == ["target", "verify", *names]
    assert all(DOCS.values())
    assert len({*DOCS.values()}) == len(DOCS)


def test_a_record_is_plain_data_of_a_version_and_is_read_back() -> None:
    chosen = Options().changed(LOW)
    record = json.loads(json.dumps(chosen.record()))
    assert record["version"] == VERSION
    assert record["kernels"]["block"] == 64
    assert Options.recorded(record) == chosen
    assert Options.recorded({"version": VERSION}) == Options()
    mine = Options().changed({"memory.planner": Planner("mine")})
    assert mine.record()["memory"]["planner"] == "mine"


def test_a_flat_record_of_the_first_version_is_read() -> None:
    flat: dict[str, Any] = {"planner": "none", "block": 64, "fuse": False, "verify": False}
    assert Options.recorded(flat) == Options().changed(LOW)
    assert Options.recorded({}) == Options()


def test_a_later_record_and_unknown_choices_are_refused() -> None:
    with says("newer-format", f"options of version {VERSION + 1}"):
        Options.recorded({"version": VERSION + 1})
    for record in ({"speed": 1}, {"version": 2, "graph": {"block": 64}}, {"version": 2, "cpu": 1}):
        with says("unknown-option", "kernels.block"):
            Options.recorded(record)
    with says("unknown-option", "did you mean kernels.block?"):
        Options().changed({"block": 64})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("graph.fuse", 1), ("kernels.vectorise", "no"), ("kernels.streams", 9),
        ("kernels.block", 48), ("kernels.unroll", 2.0), ("memory.plan_seconds", float("nan")),
        ("memory.embedded", -1), ("verify", None), ("kernels.block", 64.0),
        ("memory.plan_seconds", float("inf")), ("memory.plan_seconds", "1"),
        ("graph.disabled", "fold"), ("graph.disabled", (1,)),
    ],
)  # fmt: skip
def test_a_value_that_a_choice_cannot_have_is_refused_by_its_path(path: str, value: object) -> None:
    with says("bad-option", f"{path} = {value}"):
        Options().changed({path: value})


def test_a_number_may_be_what_its_description_says() -> None:
    """Each end that is named is allowed, and the next number beyond it is not."""
    checked = 0
    for group in (Options().graph, Options().kernels, Options().memory):
        for f in fields(group):
            want: str = f.metadata["rule"].want
            path = f"{group.path}{f.name}"
            power = "power of two" in want
            for n, beyond in zip(map(int, re.findall(r"\d+", want)), (-1, 1), strict=False):
                assert Options().changed({path: n}).choices()[path] == n
                with pytest.raises(DidymaError, match=re.escape(want)):
                    Options().changed({path: n + (n // 2 if power else 1) * beyond})
                checked += 1
            if power:
                with pytest.raises(DidymaError, match=re.escape(want)):
                    Options().changed({path: 96})
    assert checked > 20


def test_a_group_is_no_dict() -> None:
    wrong: Any = {"block": 64}
    with says("bad-option", "a KernelOptions"):
        Options(kernels=wrong)
