"""`didyma explain`: every level's text parses back to itself, and the module runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.codegen.pipeline import compile
from didyma.commands.explain import texts
from didyma.files import beside, read_module
from didyma.fuzz.graphs import BYTES, decode
from didyma.refimpl.ir.text import parse, show
from didyma.texts import with_files
from didyma.tracer.tensor import Tensor
from didyma.tracer.tracing import Program
from tests.didyma.cli import didyma, python
from tests.didyma.test_bad_input import magika


def all_parse_back(files: dict[str, str]) -> None:
    """Each text is the text of what it says; every level is there."""
    names = [n for n in files if n.endswith(".dym")]
    assert names[0] == "00-source.dym"
    assert names[-4:] == ["loops.dym", "kernels.dym", "program.dym", "program-unplanned.dym"]
    assert len(names) > 6
    for name in names:
        if files[name]:
            assert show(parse(files[name], name)) == files[name], name


def as_text(files: dict[str, str | bytes]) -> dict[str, str]:
    return {n: t for n, t in files.items() if isinstance(t, str)}


@pytest.fixture(scope="module")
def traced() -> Program:
    n = dd.dim("n", 1, 64)

    def head(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return dd.softmax(x @ w + b, axis=-1)

    # Sizes are no types to a type checker.
    head.__annotations__ = {"x": dd.f32[n, 12], "w": dd.f32[12, 5], "b": dd.f32[5]}
    return dd.trace(head)


def test_a_traced_model(traced: Program, tmp_path: Path) -> None:
    source = tmp_path / "head.dym"
    source.write_text(str(traced))
    out = tmp_path / "out"
    said = didyma("explain", source, "--out", out, "--json")
    assert said.code == 0
    assert said.json["files"] == sorted(p.name for p in out.iterdir())
    files = {name: (out / name).read_text() for name in said.json["files"]}
    all_parse_back({n: files[n] for n in as_text(texts(compile(traced.module)))})
    assert files["00-source.dym"] == f"{traced}\n"
    assert "__global__" in files["kernels.cu"]
    assert (out / "kernels.cu").stat().st_mode & 0o777 == source.stat().st_mode & 0o777
    assert files["wrapper.py"] == compile(traced.module).wrapper


def test_it_says_how_calls_on_a_gpu_run(traced: Program, tmp_path: Path) -> None:
    source = tmp_path / "head.dym"
    source.write_text(str(traced))
    said = didyma("explain", source, "--out", tmp_path / "out")
    assert "prepared for each shape" in said.out
    assert "of input w, parts of rows are read as they lie" in " ".join(said.out.split())
    assert "transposed arrays are copied: neighbouring threads" in " ".join(said.out.split())

    def is_large(y: Tensor) -> Tensor:
        return dd.max(y) > 1.0

    def half(y: Tensor) -> Tensor:
        return y * 0.5

    def halved(x: Tensor) -> Tensor:
        (y,) = dd.while_loop(is_large, half, x)
        return y

    source.write_text(str(dd.trace(dd.f32[6])(halved)))
    said = didyma("explain", source, "--out", tmp_path / "out")
    assert "launch by launch: a branch is taken by what is on the GPU" in said.out


def test_it_can_be_written_over(traced: Program, tmp_path: Path) -> None:
    source = tmp_path / "head.dym"
    source.write_text(str(traced))
    first = didyma("explain", source, "--out", tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert didyma("explain", source, "--out", tmp_path / "out").out == first.out
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_the_log_tells_levels_or_says_what_it_does_not_know(
    traced: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.dym").write_text(str(traced))
    args = ("explain", tmp_path / "p.dym", "-o", tmp_path / "out")
    monkeypatch.setenv("DIDYMA_LOG", "plan")
    assert "# plan, after plan" in didyma(*args).err
    monkeypatch.setenv("DIDYMA_LOG", "plans")
    refused = didyma(*args)
    assert refused.code == 2
    assert "bad-option at `DIDYMA_LOG`" in refused.err


@pytest.mark.parametrize("seed", range(12))
def test_fuzzed_graphs(seed: int) -> None:
    case = decode(random.Random(seed).randbytes(BYTES))
    all_parse_back(as_text(texts(compile(case.module))))


def test_a_real_model(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = didyma("explain", magika(), "--out", out, "--json")
    assert said.code == 0
    (weights,) = [n for n in said.json["files"] if n.endswith(".safetensors")]
    assert (out / weights).stat().st_size > 1 << 20
    names = [n for n in said.json["files"] if n.endswith(".dym")]
    order = sorted(names, key=lambda n: (not n[0].isdigit(), n))
    files = {n: (out / n).read_text() for n in order}
    for name, text in files.items():
        assert with_files(show(parse(text, name, beside(out / name))), {}) == text, name
    assert len(names) >= 8
    build.write(
        tmp_path / "built", build.contents({"host": build.Target(compile(read_module(magika())))})
    )
    ran = python("module.py", cwd=tmp_path / "built", timeout=300)
    assert ran.code == 0, ran.err
    assert "out  0: float32[" in ran.out


def test_inputs_that_built_programs_copy_are_told(tmp_path: Path) -> None:
    source = tmp_path / "packed.dym"
    source.write_text(
        "module {\nfunc @main(%q: u4[2], %x: f32[2]) -> (%y) {\n"
        "%w = cast(%q, dtype=f32) : f32[2]\n%y = add(%w, %x) : f32[2]\n}\n}\n"
    )
    said = didyma("explain", source, "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    copied, read = said.json["calls"][:2]
    assert "q is copied" in copied
    assert ", x are read where they are in row-major order" in read


MOVERS = """module {
  dims n in [1, 9]
  func @main(%x: f32[n, 4, 6], %y: f32[n, 6]) -> (%p, %b, %s) {
    %c = constant(value=f32[] 0.0) : f32[]
    %p = pad(%y, %c, high=(0, 1), low=(0, 1), mode="reflect") : f32[n, 8]
    %t = exp(%x) : f32[n, 4, 6]
    %a = permute_dims(%t, axes=(0, 2, 1)) : f32[n, 6, 4]
    %b = reshape(%a, shape=(n, 24)) : f32[n, 24]
    %s = sum(%b, axes=(1,), keepdims=false) : f32[n]
  }
}
"""


def test_kernels_that_only_move_have_reasons(tmp_path: Path) -> None:
    (tmp_path / "moves.dym").write_text(MOVERS)
    said = didyma("explain", tmp_path / "moves.dym", "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    (pad,) = said.json["moves"]
    assert pad.endswith("only moves elements: no strides tell what pad reads")
    words = ("explain", tmp_path / "moves.dym", "--out", tmp_path / "apart", "--json")
    said = didyma(*words, "--option", "graph.fuse=false")
    assert said.code == 0, said.err
    assert "it is reshaped behind that, which no strides tell" in said.json["moves"][1]


def test_attentions_that_stay_apart_have_reasons(tmp_path: Path) -> None:
    heads = [dd.f32[2, 4, 64, 80]] * 3
    source, out = tmp_path / "attention.dym", tmp_path / "out"
    source.write_text(str(dd.trace(*heads)(dd.scaled_dot_product_attention)))
    words = ("explain", source, "--out", out, "--option", "target=sm_90a", "--json")
    said = didyma(*words)
    assert said.code == 0, said.err
    (why,) = said.json["apart"]
    assert why.endswith("f32 with multiples of 32 features up to 128")
    assert why.split(":")[0] in (out / "00-source.dym").read_text()
    said = didyma(*words, "--option", "kernels.codegens=tiled_attention")
    assert said.json["apart"] == []


DEGENERATE = {
    "one reshape": "(%x: f32[2, 3]) -> (%y) {\n%y = reshape(%x, shape=(6,)) : f32[6]\n}",
    "no node": "(%x: f32[2, 3]) -> (%x, %x) {\n}",
    "nothing": "() -> () {\n}",
    "no result": "(%x: f32[2]) -> () {\n%y = exp(%x) : f32[2]\n}",
    "a constant": "() -> (%c) {\n%c = constant(value=f32[2] [1.0, 2.0]) : f32[2]\n}",
    "no element": "(%x: f32[0, 3]) -> (%y) {\n%y = exp(%x) : f32[0, 3]\n}",
    "an external function": '(%x: f32[2]) -> (%y) attrs(Compiler="lib") {\n'
    "%y = exp(%x) : f32[2]\n}",
    "a kernel": "(%x: f32[2]) -> (%y) attrs(Primitive=1) {\n%y = exp(%x) : f32[2]\n}",
    "only a branch": "(%c: bool[], %x: f32[2], %y: f32[2]) -> (%z) {\n"
    '%z = if(%c, %x, %y, binds=(), otherwise="b", then="a") : f32[2]\n}',
    "only a call": "(%x: f32[2], %y: f32[2]) -> (%z) {\n%z = call @kept(%x, %y) : f32[2]\n}",
}
BRANCHES = """module {
func @a(%x: f32[2], %y: f32[2]) -> (%x) {
}
func @b(%x: f32[2], %y: f32[2]) -> (%y) {
}
func @kept(%x: f32[2], %y: f32[2]) -> (%y) attrs(NoInline=1) {
}
"""


@pytest.mark.parametrize("name", DEGENERATE)
def test_programs_in_which_little_happens(name: str, tmp_path: Path) -> None:
    source = tmp_path / "small.dym"
    source.write_text(f"{BRANCHES}func @main{DEGENERATE[name]}\n}}\n")
    said = didyma("explain", source, "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    assert [*said.json["seconds"]][-6:] == ["lower", "schedule", "order", "plan", "emit", "wrap"]
    for file in said.json["files"]:
        text = (tmp_path / "out" / file).read_text()
        if file.endswith(".dym") and not text.startswith("# None"):
            assert show(parse(text, file)) == text, file


def test_an_entry_that_is_a_kernel_agrees(tmp_path: Path) -> None:
    source = tmp_path / "kernel.dym"
    source.write_text(f"module {{\nfunc @main{DEGENERATE['a kernel']}\n}}\n")
    ran = didyma("check", source)
    assert ran.code == 0, ran.out
