"""The words beside the code are true: examples run, generated pages are fresh, links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from didyma.pages.index import PAGES

ROOT = Path(__file__).parents[1]
_FILES = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
NAMES = sorted(str(p.relative_to(ROOT)) for p in _FILES)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")


def blocks(name: str) -> list[tuple[str, str, str]]:
    """Fenced blocks of a page: language, text, and the ``output`` block after it, if any."""
    found = [(m[1], m[2], m.start(), m.end()) for m in FENCE.finditer(text(name))]
    rows: list[tuple[str, str, str]] = []
    for i, (language, body, _, end) in enumerate(found):
        output = ""
        if i + 1 < len(found) and found[i + 1][0] == "output":
            between = text(name)[end : found[i + 1][2]]
            output = found[i + 1][1] if len(between.strip().split("\n\n")) <= 1 else ""
        rows.append((language, body, output))
    return rows


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_python_of_a_page_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All python blocks, in order, are one script; an ``output`` block is what one prints."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "page"}
    for language, body, output in blocks(name):
        if language == "python":
            exec(compile(body, name, "exec"), space)
            said = capsys.readouterr().out
            if output:
                assert said == output


@pytest.mark.parametrize("name", NAMES)
def test_every_block_says_its_language(name: str) -> None:
    """So that no example is left out by mistake: an unmarked block with Python in it is one."""
    known = {"python", "output", "text", "", "c", "console", "sh", "json", "ini", "dym", "diff"}
    for language, body, _ in blocks(name):
        assert language in known, f"{name}: {language}"
        if language == "":
            assert not re.search(r"^(import|from|def|@dd)\b", body, re.MULTILINE), body


def test_pages_are_closed() -> None:
    for name in NAMES:
        assert len(re.findall(r"^```", text(name), re.MULTILINE)) % 2 == 0, name


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target, anchor in LINK.findall(re.sub(r"```.*?```", "", text(name), flags=re.DOTALL)):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{name}: {target}"
        if anchor and there.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in heads}
            assert anchor[1:] in slugs, f"{name}: {target}{anchor}"


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_fresh(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), "run `nox -s docs`"
