"""The documentation is true: every block runs, generated pages are fresh, links lead somewhere."""

from __future__ import annotations

import configparser
import doctest
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import didyma as dd
import noxfile
from didyma.cli import app
from didyma.codegen import plugins
from didyma.pages.index import PAGES
from didyma.refimpl.ir.text import parse
from tests.pages import ROOT, blocks, commands, main, perform, same, shell, text

_FILES = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
NAMES = sorted(str(p.relative_to(ROOT)) for p in _FILES)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
LANGUAGES = {
    "python", "python-console", "output", "console", "sh", "dym", "ini", "toml", "yaml", "diff",
    "json", "text", "c", "{toctree}", "{eval-rst}", "{include}", "{image}",
}  # fmt: skip
DIFFS = "CONTRIBUTING.md"  # test_recipes applies them
ERRORS = "docs/errors.md"  # its texts break laws: tests/errors sees to it that they do


def _runs(name: str) -> bool:
    return any(b.language in ("python", "console") for b in blocks(name))


@pytest.mark.parametrize("name", [n for n in NAMES if _runs(n)])
def test_a_page_runs_from_top_to_bottom(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files are written, Python blocks are one script, and commands print what the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(plugins, "_CALLED", {})  # what a page registers goes with it
    env = shell(tmp_path)
    space: dict[str, object] = {"__name__": "page"}
    before = {*sys.modules}
    for block in blocks(name):
        if block.file:
            Path(block.file).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.body, name, "exec"), space)
            shown = capsys.readouterr().out
            if block.output:
                assert shown == block.output
        elif block.language == "console":
            for command in commands(block.body):
                _, got = perform(command, tmp_path, env)
                assert same(command.output, got), f"$ {command.words}\n{got}"
    for module in {*sys.modules} - before:
        if Path(str(getattr(sys.modules[module], "__file__", ""))).is_relative_to(tmp_path):
            del sys.modules[module]


def test_a_page_gets_what_its_commands_print_now_unless_one_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"

    def written(command: str, shown: str) -> str:
        session = f"```console\n$ {command}\n{shown}\n```\n"
        page.write_text(f"```console\n$ echo 1\n2\n```\n{session}", encoding="utf-8")
        main(str(page))
        now = page.read_text(encoding="utf-8")
        assert now.startswith("```console\n$ echo 1\n1\n```\n```console\n$ ")
        return now.splitlines()[-2]

    assert written("echo wrong; exit 1", "right") == "wrong"
    assert written("echo bad; exit 2", "bad") == "bad", "a page may show a failure"
    for command in ("echo bad; exit 2", "echo 'Traceback (most recent call last)'; exit 1"):
        with pytest.raises(SystemExit, match="stays as it was"):
            written(command, "right")
        assert "\n2\n" in page.read_text(encoding="utf-8"), "as it was"


@pytest.mark.parametrize("name", NAMES)
def test_every_block_says_its_language(name: str) -> None:
    for block in blocks(name):
        assert block.language in LANGUAGES, f"{name}: {block.language!r}"
        if block.language == "diff":
            assert name == DIFFS


@pytest.mark.parametrize("name", NAMES)
def test_data_and_programs_of_a_page_parse(name: str) -> None:
    for block in blocks(name):
        match block.language:
            case "json":
                json.loads(block.body)
            case "ini":
                configparser.ConfigParser().read_string(block.body)
            case "toml":
                tomllib.loads(block.body)
            case "python-console":
                assert doctest.DocTestParser().get_examples(block.body)
            case "dym" if name != ERRORS:
                parse(block.body)
            case _:
                pass


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_a_page_exist(name: str) -> None:
    """Lines of ``sh`` blocks install, or take hours: their words are checked, and not run."""
    for block in blocks(name):
        if block.language == "sh":
            for line in block.body.replace("\\\n", " ").splitlines():
                for part in re.split(r"&&|;| \| ", line.split(" #")[0]):
                    _exists(shlex.split(part))


def _exists(words: list[str]) -> None:
    """Check that a command is there, and takes the options that are given."""
    if words[:1] == ["didyma"]:
        main: Any = get_command(app)
        command = main.commands[words[1]]
        command = getattr(command, "commands", {}).get("".join(words[2:3]), command)
        options = {o for p in command.params for o in p.opts}
        given = {w for w in words[2:] if w.startswith("-") and w != "-"}
        assert given <= options | {"--help"}, words
    elif "nox" in words and "-s" in words:
        sessions = takewhile(lambda w: w != "--", words[words.index("-s") + 1 :])
        assert [s for s in sessions if not hasattr(noxfile, s)] == [], words
    elif "-m" in words and words[2] not in ("pip", "venv"):
        assert importlib.util.find_spec(words[2]), words
    elif words[2:3] == ["pip"]:
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        extras = re.findall(r"\[([\w,]+)\]", " ".join(words))
        named = {e for group in extras for e in group.split(",")}
        assert named <= {*config["options.extras_require"]}, words


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


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(text(f"docs/{name}") for name in PAGES if name.startswith("api"))
    functions = (n for n in dir(dd) if callable(getattr(dd, n)))
    assert [n for n in functions if f"`{n}`" not in pages and n not in DTYPES] == []


DTYPES = {n for n in dir(dd) if type(getattr(dd, n)).__name__ == "Element"}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = ("-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "trees"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(ROOT / "docs"), str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {f"{Path(n).stem}.html" for n in NAMES if n.startswith("docs/")}
    assert pages <= {p.name for p in (tmp_path / "site").glob("*.html")}
