"""Slips that nobody had seen: what is read of a file, and what a campaign says of two of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.mutants.held_out import Verdict, table
from tests.mutants.mutant import ROOT

_SLIPS = """
[[slip]]
name = "one bit of a sign"
file = "codegen/emit/terms.py"
old = "negative = math.copysign(1.0, value) < 0"
new = "negative = math.copysign(1.0, value) > 0"
[[slip]]
name = "what no kernel of expressions shows"
file = "codegen/order/results.py"
old = ") < own[value]:"
new = ") <= own[value]:"
[[slip]]
name = "a text that is nowhere"
file = "codegen/emit/terms.py"
old = "no such text"
new = ""
"""


def test_a_campaign_tells_which_slips_it_finds(tmp_path: Path) -> None:
    file = tmp_path / "slips.toml"
    file.write_text(_SLIPS, encoding="utf-8")
    command = (
        sys.executable, "-m", "tests.mutants.held_out", str(file), "--seconds", "0.4",
        "--domain", "emission",
    )  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    stale, _, first, second, *rows = done.stdout.splitlines()
    assert stale.startswith("a text that is nowhere: its text occurs 0 times")
    name, group, met, judged, at, how = json.loads(first)
    assert (name, group) == ("one bit of a sign", "emit")
    assert met >= judged > 0
    assert 0 < at < 2
    assert how.startswith("emission: ")
    assert json.loads(second)[2:] == [0, 0, None, ""]
    assert rows[-1].split("|")[2:5] == [" 2 ", " 1 ", " 50 % "]


def test_a_median_is_of_those_killed() -> None:
    found = [Verdict("", "emit", 1, 1, at, "x" if at else "") for at in (1.0, 3.0, None, 9.0)]
    assert [*table(found)][-1] == "| all | 4 | 3 | 75 % | 3.0 s |"


def test_an_expression_of_an_unbound_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "slips.toml"
    slip = _SLIPS.split("[[slip]]")[1]
    file.write_text(f'[[slip]]{slip}when = "valeu > 0"\n', encoding="utf-8")
    command = (
        sys.executable, "-m", "tests.mutants.held_out", str(file), "--seconds", "0.4",
        "--domain", "emission",
    )  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = " ".join(done.stderr.replace("\u2502", " ").split())
    assert "slip 'one bit of a sign': name 'valeu' is not defined" in said
