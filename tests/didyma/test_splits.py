"""Products are cut into the number of parts whose kernels took the least time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import didyma as dd
from didyma import splits
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select.cache import Cache, Pick, default_path
from didyma.codegen.select.choice import build
from didyma.refimpl.ir.text import show
from tests.didyma.cli import didyma
from tests.errors.test_codes import says

GPU = dd.Options(target="sm_80")
SIMT = engine("simt")


@dd.trace(dd.bf16[64, 8192], dd.bf16[8192, 128], dd.bf16[8192, 128])
def two(x: dd.Tensor, w: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x @ w, dd.relu(x @ v)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def pick(s: splits.Split, digest: str, seconds: float) -> Pick:
    r = s.requests[digest]
    text = build(r.loop, r.options, r.usual, r.source).digest
    return Pick(digest, str(r.usual), text, r.name, r.target, "{}", seconds, seconds)


def keep(seconds: Callable[[splits.Split, str], float | None]) -> list[splits.Split]:
    """Keep picks of all functions of all splits, but those that took no time."""
    found = [*splits.splits(two.module, GPU, SIMT)]
    times = [(s, d, t) for s in found for d in s.requests if (t := seconds(s, d)) is not None]
    Cache(default_path()).replace([pick(*row) for row in times])
    return found


def number(s: splits.Split) -> int:
    return s.options.graph.parts


def chosen(choose: str = "cached") -> int:
    return splits.chosen(two.module, GPU, SIMT, choose).graph.parts


def test_the_fastest_split_is_taken_and_recorded() -> None:
    found = keep(lambda s, _: 1.0 if number(s) == 8 else 2.0)
    assert [number(s) for s in found] == [0, 8], "the model takes 16"
    assert all(sum(s.calls.values()) == 4 for s in found), "each product, and each sum"
    made = dd.compile(two, options=GPU, engine="simt", choose="cached")
    eight = dd.compile(two, options=GPU.changed({"graph.parts": 8}), engine="simt")
    assert made.text == eight.text != dd.compile(two, options=GPU, engine="simt").text
    again = dd.compile(two, options=GPU, engine="simt", choose=made.choices)
    assert again.text == made.text
    assert made.choices["parts"] == 8
    with says("bad-choice", "parts", "a number of parts"):
        dd.compile(two, options=GPU, engine="simt", choose={**made.choices, "parts": "8"})


def test_the_times_of_a_split_are_added_up_over_calls() -> None:
    def seconds(s: splits.Split, digest: str) -> float:
        return {16: 2.0, 8: 3.5}[number(s) or 16] if s.calls[digest] == 2 else 1.0

    keep(seconds)
    assert chosen() == 0, "2 * 2 + 1 + 1 < 2 * 3.5 + 1 + 1"
    keep(lambda s, d: seconds(s, d) if number(s) or s.calls[d] == 2 else 3.0)
    assert chosen() == 8


def test_a_split_of_which_a_time_is_missing_is_not_taken() -> None:
    def seconds(s: splits.Split) -> float:
        return 0.5 if number(s) == 8 else 1.0

    keep(lambda s, d: None if number(s) == 8 and s.calls[d] == 2 else seconds(s))
    assert chosen() == 0
    keep(lambda s, _: seconds(s))
    assert chosen() == 8
    assert chosen("heuristic") == 0


def test_the_command_tunes_the_functions_of_each_split_once(tmp_path: Path) -> None:
    found = keep(lambda s, _: 1.0)
    file = tmp_path / "two.dym"
    file.write_text(show(two.module))
    said = didyma("tune", file, "--engine", "simt", "--option", "target=sm_80", "--json")
    assert said.code == 0
    assert [row["key"] for row in said.json["functions"]] == [d for s in found for d in s.requests]


def test_what_the_options_say_is_no_choice() -> None:
    keep(lambda s, _: 1.0 if number(s) == 8 else 2.0)
    for options in (GPU.changed({"graph.parts": 1}), GPU.changed({"target": "portable"})):
        (only,) = splits.splits(two.module, options, SIMT)
        assert only.options == splits.chosen(two.module, options, SIMT, "cached") == options
