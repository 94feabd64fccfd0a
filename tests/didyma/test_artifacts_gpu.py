"""Built programs for GPUs: machine code, texts, and a loader, beside those for the CPU."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from didyma.artifacts import manifest
from didyma.artifacts.load import load
from didyma.codegen.runtime.registry import probe
from tests.didyma.cli import didyma
from tests.didyma.test_artifacts import changed_bytes_are_refused, refusal

TEXT = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 50], %w: f32[50, 8]) -> (%y) {
    %b = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]
    %t = matmul(%x, %w) : f32[n, 8]
    %c = broadcast_to(%b, shape=(n, 8)) : f32[n, 8]
    %y = add(%t, %c) : f32[n, 8]
  }
}
"""
EM_CUDA = 190  # in the header of an ELF file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not probe("nvrtc").runs:
        pytest.skip(probe("nvrtc").why)
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "add.dym").write_text(TEXT)
    words = ("build", str(folder / "add.dym"), "--tries", "1", "--json", "-o")
    said = didyma(*words, str(folder / "both"), "--target", "sm_90a,host", "--engine", "host")
    assert said.code == 0, said.err
    assert {*said.json["verdicts"]} == {"sm_90a", "host"}
    assert didyma(*words, str(folder / "gpu"), "--target", "sm_80").code == 0
    return folder


def test_an_artifact_has_several_targets(built: Path) -> None:
    folder = built / "both"
    artifact = manifest.check(folder)
    targets = artifact.manifest["targets"]
    assert targets["host"]["machines"] == [manifest.machine()]
    assert targets["host"]["compiler"].startswith("TinyCC")
    about = targets["sm_90a"]
    assert (about["architecture"], about["driver"]) == ("sm_90a", "580")
    code = (folder / "sm_90a" / "kernels.cubin").read_bytes()
    assert struct.unpack_from("<H", code, 18) == (EM_CUDA,)
    ptx = (folder / "sm_90a" / "kernels.ptx").read_text()
    assert ".target sm_90a" in ptx
    p = json.loads((folder / "sm_90a" / "program.json").read_bytes())
    assert p["objects"]["sm_90a"] == ["kernels.cubin", manifest.sha256(code)]
    for name in p["kernels"]:
        assert f".entry {name}(" in ptx
        assert name.encode() in code
    for at in ("", "sm_90a/"):
        verdict = json.loads((folder / f"{at}verdict.json").read_bytes())
        assert verdict["verdict"] == "agree"
        choices = json.loads((folder / f"{at}choices.json").read_bytes())
        assert {*choices["choices"]} == {*p["kernels"]}
    assert "; sm_90a" in didyma("artifact", "check", str(folder)).out.replace("sm_90a;", "; sm_90a")


def test_both_run_here_on_the_cpu_alone(built: Path) -> None:
    assert didyma("run", str(built / "both"), "--json").code == 0
    e = refusal(lambda: load(built / "gpu", "host"))
    assert (e.code, e.got, e.want) == ("unknown-target", "host", "one of sm_80")


def test_every_changed_byte_of_a_gpu_s_files_is_refused(built: Path) -> None:
    folder = built / "both"
    files = {
        name: (folder / name).read_bytes()
        for name in json.loads((folder / manifest.NAME).read_bytes())["files"]
        if name.startswith("sm_90a/")
    }
    assert {Path(name).suffix for name in files} >= {".cubin", ".ptx", ".cpp", ".h", ".json"}
    changed_bytes_are_refused(folder, files, 6)


def test_it_is_the_same_each_time(built: Path, tmp_path: Path) -> None:
    words = ("build", str(built / "add.dym"), "--tries", "1", "-o", str(tmp_path / "again"))
    assert didyma(*words, "--target", "sm_80").code == 0
    first, again = (
        {p: p.read_bytes() for p in (f / "sm_80").rglob("*.*") if p.name != "verdict.json"}
        for f in (built / "gpu", tmp_path / "again")
    )
    assert [*first.values()] == [*again.values()]
