"""The log: whole lines, whoever writes, and after a line that was cut off."""

from __future__ import annotations

import json
import multiprocessing as mp
from pathlib import Path

import pytest

from didyma.codegen.select.log import append
from didyma.refimpl.errors import DidymaError


def write(path: Path, who: int) -> None:
    for n in range(50):
        append(path, {"who": who, "n": n, "long": "x" * 5000})


def test_processes_that_write_at_once_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    children = [mp.get_context("fork").Process(target=write, args=(path, k)) for k in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {(r["who"], r["n"]) for r in rows} == {(w, n) for w in range(3) for n in range(50)}


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"n": 1}\n{"n": ', encoding="utf-8")
    append(path, {"n": 3})
    assert path.read_text(encoding="utf-8").splitlines() == ['{"n": 1}', '{"n": ', '{"n": 3}']


def test_a_folder_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DidymaError) as caught:
        append(tmp_path, {})
    assert caught.value.code == "unwritable"
