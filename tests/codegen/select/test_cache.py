"""The cache: several processes, kills, damage, versions, export and import."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from didyma.codegen.select.cache import Cache, Pick, Verdict, exported, imported
from didyma.refimpl.errors import DidymaError

PICK = Pick("k", "row(groups=8, lanes=32)", "text", "f", "host", "{}", 1e-3, 2e-3)


def judge_at_once(path: Path, who: int, gate: Barrier) -> None:
    gate.wait()
    Cache(path).judged("k", Verdict(f"{who}", "row(groups=1, lanes=32)", ""))


def add_many(path: Path, who: int, count: int) -> None:
    cache = Cache(path)
    for n in range(count):
        cache.add(replace(PICK, key=f"{n}", choice=f"row(groups={who + 1}, lanes=32)"))
        cache.judged("k", Verdict(f"{who} {n}", "row(groups=1, lanes=32)", ""))


def start(targets: Sequence[tuple[Path, int, int]]) -> list[ForkProcess]:
    context = mp.get_context("fork")
    found: list[ForkProcess] = []
    for args in targets:
        found.append(context.Process(target=add_many, args=args))
        found[-1].start()
    return found


def test_a_pick_is_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "choices.sqlite")
    assert cache.get("k") is None
    assert not cache.path.exists()
    assert cache.add(PICK) == PICK == cache.get("k")
    assert cache.picks() == [PICK]


def test_of_two_picks_under_one_key_the_first_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    cache.add(PICK)
    assert cache.add(replace(PICK, choice="row(groups=4, lanes=32)")) == PICK
    other = replace(PICK, choice="row(groups=2, lanes=32)")
    cache.replace([other])
    assert cache.get("k") == other


def test_processes_that_write_at_once_lose_nothing_and_agree(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    children = start([(path, who, 25) for who in range(4)])
    for p in children:
        p.join()
        assert p.exitcode == 0
    assert len(Cache(path).picks()) == 25
    assert len(Cache(path).verdicts("k")) == 100


def test_processes_that_make_the_file_at_once_agree(tmp_path: Path) -> None:
    context = mp.get_context("fork")
    gate = context.Barrier(4)
    for n in range(20):
        args = [(tmp_path / f"{n}.sqlite", who, gate) for who in range(4)]
        children = [context.Process(target=judge_at_once, args=a) for a in args]
        for p in children:
            p.start()
        for p in children:
            p.join()
        assert [p.exitcode for p in children] == [0] * 4
        assert len(Cache(tmp_path / f"{n}.sqlite").verdicts("k")) == 4
    assert len(list(tmp_path.iterdir())) == 20  # nothing else is left in the folder


def test_an_empty_file_becomes_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.touch()
    assert Cache(path).picks() == []
    assert Cache(path).add(PICK) == PICK


def test_a_killed_process_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    for round_ in range(3):
        (child,) = start([(path, round_, 10_000)])
        while not path.exists() or len(Cache(path).verdicts("k")) < 5 * (round_ + 1):
            time.sleep(0.005)
        seen = Cache(path).verdicts("k")
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        after = Cache(path).verdicts("k")
        assert seen.keys() <= after.keys()
    assert all(p.choice.startswith("row(groups=") for p in Cache(path).picks())
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    c.close()


@pytest.mark.parametrize(
    "data", [b"not a database at all, but long enough to be read", b"x" * 9000]
)
def test_a_file_that_is_no_cache_is_an_error_and_stays(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(data)
    cache = Cache(path)
    for call in (partial(cache.get, "k"), partial(cache.add, PICK), cache.picks, cache.clear):
        with pytest.raises(DidymaError, match="delete it yourself") as caught:
            call()
        assert caught.value.code == "corrupt-cache"
    assert path.read_bytes() == data


def test_a_file_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).replace(
        [replace(PICK, key=str(n), conditions='"' + "x" * 500 + '"') for n in range(99)]
    )
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    with pytest.raises(DidymaError, match="tune --clear") as caught:
        Cache(path).picks()
    assert caught.value.code == "corrupt-cache"
    assert Cache(path).clear() == 0
    assert Cache(path).add(PICK) == PICK


def test_a_database_of_something_else_is_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    c = sqlite3.connect(path)
    c.execute("CREATE TABLE mail (subject TEXT)")
    c.commit()
    c.close()
    for call in (partial(Cache(path).get, "k"), Cache(path).clear):
        with pytest.raises(DidymaError, match="something else"):
            call()
    assert path.exists()


def edit(path: Path, command: str) -> None:
    c = sqlite3.connect(path)
    c.execute(command)
    c.commit()
    c.close()


def test_a_newer_file_is_an_error_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).add(PICK)
    edit(path, "PRAGMA user_version = 9")
    with pytest.raises(DidymaError, match="newer Didyma") as caught:
        Cache(path).get("k")
    assert caught.value.code == "newer-cache"
    assert path.exists()


def test_a_row_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).add(PICK)
    edit(path, "UPDATE picks SET choice = 'gibberish'")
    with pytest.raises(DidymaError, match="'k'") as caught:
        Cache(path).get("k")
    assert caught.value.code == "corrupt-cache"


def test_a_folder_in_its_place_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DidymaError) as caught:
        Cache(tmp_path).add(PICK)
    assert caught.value.code == "unwritable"


def test_a_folder_that_cannot_be_made_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    path = tmp_path / "taken" / "c.sqlite"
    with pytest.raises(DidymaError) as caught:
        Cache(path).add(PICK)
    assert (caught.value.code, caught.value.where) == ("unwritable", str(path))
    assert str(tmp_path) not in caught.value.got


def test_picks_travel_as_text() -> None:
    text = exported([PICK, replace(PICK, key="other")])
    assert imported(text, "picks.json") == [PICK, replace(PICK, key="other")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "unreadable-file"),
        ("[]", "unreadable-file"),
        ('{"version": 1}', "unreadable-file"),
        ('{"version": 9, "picks": []}', "newer-format"),
        ('{"version": 1, "picks": [{"key": "k"}]}', "unreadable-file"),
        ('{"version": 1, "picks": [3]}', "unreadable-file"),
    ],
)
def test_what_is_no_export_is_refused(text: str, code: str) -> None:
    with pytest.raises(DidymaError, match=r"picks\.json") as caught:
        imported(text, "picks.json")
    assert caught.value.code == code


def test_clear_counts(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    assert cache.clear() == 0
    cache.replace([PICK, replace(PICK, key="other")])
    cache.judged("k", Verdict("t", "row(groups=1, lanes=32)", "wrong"))
    assert cache.clear() == 2
    assert cache.picks() == []
    assert cache.verdicts("k") == {}
