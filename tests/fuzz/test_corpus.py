"""Every case of the corpus agrees at every level, on both CPU engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from didyma.checking import ENGINES
from didyma.fuzz import again, corpus_files
from didyma.fuzz.executor import InlineExecutor

CASES = corpus_files.cases()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_agrees(path: Path) -> None:
    (o,) = again.judged([CASES[path]], ENGINES, executor=InlineExecutor())
    assert not o.findings, CASES[path].why
    assert o.checked, "something was judged"


def test_cases_differ_and_say_what_they_are_for() -> None:
    assert len(CASES) >= 20
    assert len({corpus_files.key(r) for r in CASES.values()}) == len(CASES)
    for path, r in CASES.items():
        assert corpus_files.signature(r) or r.covers, path
        assert path.stem.endswith(corpus_files.key(r)), "its name says what it is"
