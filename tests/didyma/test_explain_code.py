"""`didyma explain CODE`: every code has a meaning, and examples raise what they are examples of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma import codes
from didyma.refimpl.errors import DidymaError
from tests.didyma.cli import EXP, didyma
from tests.error_codes import raised
from tests.test_house import PACKAGES, ROOT

PYTHON = {c: m.example for c, m in codes.CODES.items() if m.example.startswith(">>> ")}


def test_every_code_has_a_meaning() -> None:
    assert {c for c in raised(ROOT, PACKAGES) if codes.meaning(c) is None} == set()


def test_a_meaning_is_a_sentence_and_has_an_example() -> None:
    for code in codes.known():
        found = codes.meaning(code)
        assert found is not None
        assert not found.text[0].islower(), code
        assert found.text.endswith("."), code
        assert found.example or code == "G-attr-data", code  # which no text can break


@pytest.mark.parametrize("code", PYTHON)
def test_an_example_in_python_raises_the_code(code: str) -> None:
    with pytest.raises(DidymaError) as e:
        exec(PYTHON[code].replace(">>> ", ""), {"dd": dd, "np": np})
    assert e.value.code == code


def test_a_law_is_told_with_a_text_that_breaks_it() -> None:
    said = didyma("explain", "G-arity")
    assert said.code == 0
    for words in ("as many operands", "%y = add(%x)", "got:  1 operand of add", "example.dym:3:"):
        assert words in said.out
    record = didyma("explain", "G-arity", "--json").json
    assert record["code"] == "G-arity"
    assert "want: 2 operands" in record["message"]


def test_another_code_is_told() -> None:
    said = didyma("explain", "shape-mismatch")
    assert said.code == 0
    assert "do not fit together" in said.out
    assert "x + y" in said.out


def test_what_is_neither_a_file_nor_a_code() -> None:
    said = didyma("explain", "G-arty", "--json")
    assert said.code == 2
    assert said.json["error"]["code"] == "unknown-code"
    assert "G-arity" in said.json["error"]["help"]
    assert didyma("explain", "no-such-file.dym", "--json").json["error"]["code"] == (
        "unreadable-file"
    )


def test_a_file_of_the_name_of_a_code_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arity").write_text(EXP)
    said = didyma("explain", "arity", "--json")
    assert (said.code, said.json["error"]["code"]) == (2, "unknown-format")


def test_errors_end_with_where_to_read_more(tmp_path: Path) -> None:
    said = didyma("check", tmp_path / "no.dym")
    assert said.code == 2
    assert said.err.rstrip().endswith("`didyma explain unreadable-file` says more")


BROKEN = """# A comment.
module {
  func @main(%x:f32[2,3],
             %z: f32[2, 3]) -> (%y) {
    %a = exp( %x )   :  f32[2,3]   # A remark.
    %y = add(%a) :
        f32[2, 3]
  }
}
"""


def test_a_broken_law_shows_its_line(tmp_path: Path) -> None:
    source = tmp_path / "broken.dym"
    source.write_text(BROKEN)
    for command in ("check", "explain", "plan"):
        said = didyma(command, source, *(("--out", tmp_path / "o") if command == "explain" else ()))
        assert said.code == 2
        assert f"in:   {source}:6: %y = add(%a) :" in said.err
    error = didyma("check", source, "--json").json["error"]
    assert (error["file"], error["line"]) == (str(source), 6)


def test_a_parameter_shows_its_line(tmp_path: Path) -> None:
    source = tmp_path / "broken.dym"
    source.write_text(BROKEN.replace("%z: f32[2, 3]", "%z: f32[n, 3]"))
    assert didyma("check", source, "--json").json["error"]["line"] == 4


def test_a_text_that_is_none_shows_its_line(tmp_path: Path) -> None:
    source = tmp_path / "broken.dym"
    source.write_text(BROKEN.replace("-> (%y)", "->"))
    error = didyma("check", source, "--json").json["error"]
    assert (error["code"], error["file"], error["line"]) == ("parse", str(source), 4)


def test_a_line_of_a_program_is_shown(tmp_path: Path) -> None:
    source = tmp_path / "program.dym"
    example = codes.meaning("P-fits")
    assert example is not None
    source.write_text(example.example)
    said = didyma("plan", source, "--json")
    error = said.json["error"]
    assert error["code"] == "P-fits"
    shown = source.read_text().splitlines()[int(error["line"]) - 1]
    assert shown.strip() in error["where"]


def test_nearly_every_broken_law_has_a_line() -> None:
    from didyma.texts import read

    lost: list[str] = []
    for path in sorted((ROOT / "tests" / "errors").glob("*.dym")):
        with pytest.raises(DidymaError) as e:
            read(path.read_text(), path.name)
        if not e.value.line:
            lost.append(path.stem)
    assert lost in ([], ["L-function-twice.2"])  # which has two equal lines
