"""`didyma explain` says which schedule each function got and who picked it; the texts go back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.commands.explain import explain
from tests.codegen.select.test_codegens import ONE
from tests.codegen.select.test_routines import BLAS
from tests.didyma.cli import didyma

ROWS = """module {
  func @main(%x: f32[40, 300], %z: f32[7]) -> (%y, %e) {
    %y = sum(%x, axes=(1,), keepdims=false) : f32[40]
    %e = exp(%z) : f32[7]
  }
}
"""
SUM, EXP = "fused_sum_0", "fused_exp_1"
STEPS = f"""schedule @{EXP} {{
  split i0 by 4 guarded into i0_outer, i0_inner
  bind i0_outer to blockIdx.x
  bind i0_inner to threadIdx.x
}}
"""
PINNED = "column(layers=8, side=32)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.dym"
    path.write_text(ROWS)
    return path


def explained(
    file: Path, capsys: pytest.CaptureFixture[str], choose: str = "heuristic", **options: Any
) -> dict[str, dict[str, Any]]:
    given = Options().changed({k.replace("__", "."): v for k, v in options.items()})
    capsys.readouterr()
    assert explain(str(file), file.parent / "out", given, True, choose=choose) == 0
    rows = json.loads(capsys.readouterr().out)["choices"]
    return {r["function"]: r for r in rows}


def program(file: Path) -> dd.Program:
    found = dd.load(file)
    assert isinstance(found, dd.Program)
    return found


def test_the_model_picks_by_itself(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(file, capsys)
    assert [r["by"] for r in found.values()] == ["heuristic", "heuristic"]
    assert found[SUM]["kernels"] == [SUM]
    again = explained(file, capsys, str(file.parent / "out" / "choices.json"))
    assert [r["by"] for r in again.values()] == ["pinned", "pinned"]


def test_a_pinned_choice_is_named_and_goes_back(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(file, capsys, kernels__choices=f"{SUM}: {PINNED}")
    assert (found[SUM]["choice"], found[SUM]["by"]) == (PINNED, "pinned")
    assert found[EXP]["by"] == "heuristic"
    pins = {name: r["choice"] for name, r in found.items()}
    text = (file.parent / "out" / "kernels.cu").read_text()
    pinned = dd.compile(program(file), engine="simt", choose=pins)
    assert pinned.text == text


def test_steps_are_printed_and_go_back(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(file, capsys, kernels__schedules=STEPS)
    assert found[EXP]["by"] == "steps"
    assert found[EXP]["steps"] == [s.strip() for s in STEPS.splitlines()[1:-1]]
    out = file.parent / "out"
    assert (out / f"{EXP}.dys").read_text() == found[EXP]["schedule"] == STEPS
    exe = dd.compile(program(file), engine="simt", schedules={EXP: out / f"{EXP}.dys"})
    assert exe.text == (out / "kernels.cu").read_text()
    x, z = np.ones((40, 300), np.float32), np.zeros(7, np.float32)
    np.testing.assert_array_equal(exe(x, z)[1], np.ones(7, np.float32))


def test_what_tuning_picked_is_told_from_what_the_model_picks(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent / "cache"))
    assert {r["by"] for r in explained(file, capsys, "cached").values()} == {"heuristic"}
    said = didyma("tune", file, "--seconds", "0.2", "--timeout", "200", "--jobs", "1", "--json")
    assert said.code == 0, said.err
    found = explained(file, capsys, "cached")
    assert {r["by"] for r in found.values()} == {"tuned"}


def test_variants_and_codegens_are_named(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = explained(file, capsys, "at-run")
    assert found[SUM]["by"] == "at-run"
    (variants,) = found[SUM]["variants"].values()
    assert variants[0] == found[SUM]["choice"]
    assert len({*variants}) == len(variants) == 3
    monkeypatch.setattr(plugins, "_CALLED", {})
    doubled = file.with_name("doubled.dym")
    doubled.write_text(
        "module {\n  func @main(%x: f32[4096]) -> (%y) {\n"
        "    %y = add(%x, %x) : f32[4096]\n  }\n}\n"
    )
    made = explained(doubled, capsys, kernels__codegens=(ONE,))
    assert [(r["choice"], r["by"]) for r in made.values()] == [("one-kernel.2()", "codegen")]


def test_a_function_that_a_routine_computes_is_named(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})
    product = file.with_name("product.dym")
    product.write_text(
        "module {\n  func @main(%a: f32[4, 5], %b: f32[5, 6]) -> (%y) {\n"
        "    %y = matmul(%a, %b) : f32[4, 6]\n  }\n}\n"
    )
    with dd.register("routines", "blas", BLAS):
        made = explained(
            product, capsys, graph__routines=("blas",), kernels__choices="fused_matmul_0: blas()"
        )
    assert made["fused_matmul_0"] == {
        "function": "fused_matmul_0", "kernels": [], "by": "pinned", "choice": "blas()"
    }  # fmt: skip


def test_the_text_says_the_same(file: Path) -> None:
    said = didyma("explain", file, "--out", file.parent / "out", "--choose", "at-run")
    assert said.code == 0
    assert f"{SUM}: " in said.out
    assert "calls choose" in said.out
    assert f"{SUM} may run as serial(" in said.out
    usual = didyma("explain", file, "--out", file.parent / "usual")
    assert "picked by the model" in usual.out
