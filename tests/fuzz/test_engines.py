"""Campaigns on engines that are objects: they travel to the workers, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from didyma.codegen.runtime.engine import Loaded
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import campaign
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.replay import load
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import KernelText


class Wrong:
    """An engine that cannot load a text with a kernel that adds, and that pickle takes."""

    name = "mine/1"

    def __init__(self) -> None:
        self._host = engine("host")

    def __reduce__(self) -> tuple[type[Wrong], tuple[()]]:
        return Wrong, ()

    def load(self, text: KernelText) -> Loaded:
        if any("add" in k.name for k in text.kernels):
            raise ValueError("no addition")
        return self._host.load(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


def refuse() -> Wrong:
    raise RuntimeError("only on the machine it was made on")


class Rooted(Wrong):
    """An engine that no other process can make."""

    def __reduce__(self) -> Any:
        return refuse, ()


def plan(e: Any, findings: Path | None = None) -> campaign.Plan:
    return campaign.Plan(
        (Graphs((e,)),), 120.0, seed=1, stop_after=1, shrink_seconds=5.0, findings=findings
    )


def test_an_engine_that_is_an_object_is_judged(tmp_path: Path) -> None:
    r = campaign.run(plan(Wrong(), tmp_path))
    (g,) = r.groups
    assert (g.level, g.kind, g.reason) == ("mine/1", "error", "ValueError")
    assert set(r.tallies) == {"graphs"}
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("mine-1-error-")
    assert load(file).engines == ("mine/1",)


def test_what_is_found_is_written_before_it_is_shrunk(tmp_path: Path) -> None:
    """So that a campaign that is killed meanwhile has lost nothing."""
    seen: list[int] = []

    def progress(r: object) -> None:
        seen.append(len(list(tmp_path.glob("*.dym"))))

    r = campaign.run(plan(Wrong(), tmp_path), progress)
    assert 1 in seen[:-1], "before the group was reported"
    assert [e.file for e in r.findings] == [str(p) for p in tmp_path.iterdir()]


@pytest.mark.parametrize("how", ["local", "rooted", "name"])
def test_engines_that_cannot_be_had_are_refused(how: str) -> None:
    class Local(Wrong):
        def __reduce__(self) -> Any:
            return Local, ()

    choices: dict[str, Any] = {"local": Local(), "rooted": Rooted(), "name": "abacus"}
    with pytest.raises(DidymaError) as e:
        campaign.run(plan(choices[how]))
    assert e.value.code == ("unknown-engine" if how == "name" else "bad-option")
    if how != "name":
        assert "entry point" in e.value.help
