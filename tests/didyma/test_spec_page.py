"""The specification names every law, and every law has a test of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from didyma.pages.spec import laws, spec_page

ROOT = Path(__file__).parents[2]
LAWS = [(module, law) for module, rows in laws().items() for law, _ in rows]


@pytest.mark.parametrize(("module", "law"), LAWS)
def test_a_law_is_in_the_page_and_in_its_verifier(module: str, law: str) -> None:
    """Its id is raised where its table stands, or by what that module was split into."""
    assert f"| `{law}` |" in spec_page()
    sources = (ROOT / "refimpl/verify").glob("*.py")
    assert any(f'"{law}"' in p.read_text(encoding="utf-8") for p in sources), module


@pytest.mark.parametrize(("module", "law"), LAWS)
def test_a_law_has_a_case_that_breaks_it(module: str, law: str) -> None:
    golden = ROOT / "tests/errors" / f"{law}.txt"
    if golden.exists():
        assert golden.read_text(encoding="utf-8").startswith(f"{law} at"), module
    else:
        tests = (ROOT / "tests").rglob("test_*.py")
        assert any(f'"{law}"' in p.read_text(encoding="utf-8") for p in tests), module
