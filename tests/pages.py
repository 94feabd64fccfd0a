"""Pages of the documentation as a reader follows them: their blocks, files and commands.

A block whose first line is ``# NAME.EXT`` is a file of that name.  A ``console`` block is a session
in a shell: lines after ``$ `` are commands, the others what they print.  A line ``...`` stands for
any lines, and a number that differs from run to run, such as seconds, for any number.
``python -m tests.pages PAGE`` runs a page and writes what its commands print now.  It leaves a page
as it is where a command fails in a way that the page does not show.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.warm import python

ROOT = Path(__file__).parents[1]
INSTALL = "python -m pip install"
FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = ("python", "ini", "toml", "dym", "yaml")  # languages whose comments begin with #
NAMED = re.compile(r"# ([\w/-]+\.\w+)\n")
JUDGED = (0, 1)  # exit codes of commands that did what they were asked to do
PROGRAMS = {"python": (), "didyma": ("-m", "didyma"), "pytest": ("-m", "pytest")}
TRACEBACK = "Traceback (most recent call last)"
# What differs between two runs of one command: seconds, rates, the time of a finding; which random
# program a campaign met first; and, in its last digit, the share of a bar, since a BLAS with other
# threads adds the reference's products in another order.
VARYING = (
    (re.compile(r"\b\d\.\d\d\d\b"), "0.000"),
    (re.compile(r"\b\d\.\d(?=e-\d\d\b)"), "1.0"),
    (re.compile(r"(?m)\b\d+\.\d+(?= ?s\b|$|  *│)"), "0.0"),
    (re.compile(r"\b\d+(?= cases in \d)"), "1"),
    (re.compile(r"│ +[\d,]+ │ +[\d,]+ │ +\d+% │ +[01]\.\d+"), "│ 1 │ 1 │ 1% │ 1.0"),
    (re.compile(r"\bin \d[\d.]* s\b"), "in 1 s"),
    (re.compile(r"(?<=\ds) \(\d+:\d\d:\d\d\)"), ""),  # pytest says minutes, too, from one on
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "2026-01-01T00:00:00Z"),
    (re.compile(r"\d+ ops, \d+ of \d+ pairs of op and dtype; median \d+ nodes"), "1 op"),
    (re.compile(r"[\d.]+% of [\d,]+ floats in the ring"), "1% of 1 float in the ring"),
    (re.compile(r"(?m)(?<=-value-)[0-9a-f]{8}"), "0"),
    (re.compile(r"\b\w+\[[\d, ]*\]: got \S+, want \S+ ± \S+"), "v[0]: got 1, want 2 ± 3"),
    (re.compile(r"(?m)^input .*"), "input"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language and text, and the text of an ``output`` block after it."""

    language: str
    body: str
    output: str

    @property
    def file(self) -> str:
        """Name of the file that the block is; empty if it is none."""
        named = NAMED.match(self.body)
        return named[1] if named and self.language in FILES else ""


def text(name: str) -> str:
    """Return the text of a page, by its path from the root of the checkout."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    page = text(name)
    found = [(m[1], m[2], m.start(), m.end()) for m in FENCE.finditer(page)]
    rows: list[Block] = []
    for i, (language, body, _, end) in enumerate(found):
        output = ""
        if i + 1 < len(found) and found[i + 1][0] == "output":
            between = page[end : found[i + 1][2]]
            output = found[i + 1][1] if len(between.strip().split("\n\n")) <= 1 else ""
        rows.append(Block(language, body, output))
    return rows


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a ``console`` block, and the lines that it prints."""

    words: str
    output: str


def commands(body: str) -> list[Command]:
    """Return the commands of a ``console`` block; a backslash continues a command's line."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a session begins with a command: {parts[0]}"
    found: list[Command] = []
    for part in parts[1:]:
        lines = part.splitlines()
        n = next(i for i, line in enumerate(lines) if not line.endswith("\\")) + 1
        found.append(Command("\n".join(lines[:n]), "\n".join(lines[n:]).strip("\n")))
    return found


def shell(folder: Path) -> dict[str, str]:
    """Return an environment in which ``python`` and ``didyma`` are those of the tests."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    for name, words in PROGRAMS.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {" ".join(words)} "$@"\n')
        script.chmod(0o755)
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "PYTEST_PLUGINS": "didyma.pytest_plugin",  # as where Didyma is installed
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


def _python(command: str) -> list[str]:
    """Return the words after ``python`` that a command is; none where it needs a shell.

    >>> _python('didyma judge a.cu --kernel "k<64>"'), _python("didyma check a.dym | head")
    (['-m', 'didyma', 'judge', 'a.cu', '--kernel', 'k<64>'], [])
    """
    bare = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", command)
    words = shlex.split(command.replace("\\\n", " "))
    if re.search(r"[|&;<>$`*?]", bare) or words[0] not in PROGRAMS:
        return []
    return [*PROGRAMS[words[0]], *words[1:]]


def _ran(command: Command, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints, stderr included."""
    if words := _python(command.words):
        done = python(*words, cwd=folder, env=env, seconds=300, one_stream=True)
    else:
        done = subprocess.run(
            ["sh", "-c", command.words], cwd=folder, env=env, text=True, timeout=300, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    lines = done.stdout.strip("\n").splitlines()
    return done.returncode, "\n".join(line.rstrip() for line in lines)


def same(want: str, got: str) -> bool:
    """Return whether a page shows what a command printed; ``...`` is any lines."""
    lines = ("(?:.*\n)*?" if x == "..." else re.escape(x) + "\n" for x in _steady(want))
    return re.fullmatch("".join(lines), "".join(f"{x}\n" for x in _steady(got))) is not None


def _steady(printed: str) -> list[str]:
    """Return lines in which everything that differs between runs has one fixed form."""
    for pattern, fixed in VARYING:
        printed = pattern.sub(fixed, printed)
    return [re.sub(r"[ ─━]{2,}", "  ", line.rstrip()) for line in printed.splitlines()]


def perform(command: Command, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Run a command of a page; return its exit code and what it prints.

    Nothing is installed anywhere.  A package in the folder is registered there, as an editable
    installation would register it.
    """
    if command.words.startswith(INSTALL):
        register(folder, (folder / "pyproject.toml").read_text(encoding="utf-8"))
        return 0, ""
    return _ran(command, folder, env)


def register(folder: Path, config: str) -> None:
    """Write what an installer writes of a distribution whose modules are in the folder already."""
    project = tomllib.loads(config)["project"]
    name, version = project["name"], project["version"]
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, points in project.get("entry-points", {}).items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def main(name: str) -> None:
    """Run a page's commands in an empty folder, and write into it what they print now.

    SystemExit, and the page stays, where a command fails in a way that it does not show.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        env = shell(folder)

        def now(found: re.Match[str]) -> str:
            block = Block(found[1], found[2], "")
            if block.file:
                (folder / block.file).write_text(block.body, encoding="utf-8")
            if block.language != "console":
                return found[0]
            return f"```console\n{_now(name, block, folder, env)}```"

        page = FENCE.sub(now, text(name))
    (ROOT / name).write_text(page, encoding="utf-8")


def _now(name: str, block: Block, folder: Path, env: dict[str, str]) -> str:
    """Return a session as it is now; what a page still shows rightly stays as it is."""
    lines: list[str] = []
    for command in commands(block.body):
        code, got = perform(command, folder, env)
        right = same(command.output, got)
        if not right and (code not in JUDGED or TRACEBACK in got):
            raise SystemExit(
                f"{name}: $ {command.words}\nends with exit code {code} and prints\n\n{got}\n\n"
                "which the page does not show; it stays as it was.  Mend the command, or write "
                "what it prints into the page if readers should see this failure."
            )
        shown = command.output if right else got
        lines += [f"$ {command.words}", *([shown, ""] if shown else [])]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(argument)
