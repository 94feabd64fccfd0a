"""Files are written completely or not at all; what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

import pytest

from didyma.codegen.runtime import disk
from didyma.refimpl.errors import DidymaError


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    disk.must_take_file(pipe)
    disk.write_file(pipe, "words")
    assert os.read(reader, 9) == b"words"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_error_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", tmp_path / "no" / "such"):
        for write in (disk.must_take_file, partial(disk.write_file, content="words")):
            with pytest.raises(DidymaError) as e:
                write(path)
            assert (e.value.code, e.value.where) == ("unwritable", str(path))
    assert list(tmp_path.rglob("*")) == [tmp_path / "taken"]


def test_a_check_before_work_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")
    disk.must_take_file(path)
    assert path.read_text() == "old"
