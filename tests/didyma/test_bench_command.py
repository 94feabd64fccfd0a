"""``didyma bench``: records, what differs between them, limits, and the commands."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from didyma.bench.records import Measured, compare, limits, read, record
from didyma.refimpl.errors import DidymaError
from tests.didyma.cli import didyma


def row(name: str, seconds: float = 1.0, group: str = "g", **extra: object) -> dict[str, Any]:
    return {"name": name, "group": group, "seconds": seconds, "extra_info": extra}


def written(folder: Path, name: str, *rows: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(record(rows), encoding="utf-8")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two records: one byte more, another machine that is half as fast, one benchmark gone."""
    base = row("base", 1.0, baseline=True)
    slow_base = row("base", 2.0, baseline=True)
    a = written(tmp_path, "a.json", base, row("k[x]", 3.0, read=100, launches=2), row("old", 1.0))
    b = written(
        tmp_path, "b.json", slow_base, row("k[x]", 6.3, read=101, launches=1), row("new", 1.0)
    )
    return a, b


def test_a_ratio_is_to_the_baseline_of_its_own_record(pair: tuple[Path, Path]) -> None:
    a, b = map(read, pair)
    assert [m.ratio for m in a] == [None, 3.0, 1.0]
    found = compare(a, b, limits("ratio:+5%"))
    (ratio,) = (c for c in found.changes if c.quantity == "ratio")
    assert (ratio.before, ratio.after, ratio.failed) == (3.0, 3.15, False)
    assert ratio.growth == pytest.approx(0.05)
    (ratio,) = (c for c in compare(a, b, limits("ratio:+4.9%")).changes if c.quantity == "ratio")
    assert ratio.failed


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("", set[str]()),
        ("bytes:+0%", {"read"}),
        ("bytes:+1%", set[str]()),
        ("counters:+0%", {"read"}),
        ("counters:+0%,read:+5%", set[str]()),
        ("launches:+0%", set[str]()),
    ],
)
def test_limits(pair: tuple[Path, Path], text: str, failed: set[str]) -> None:
    a, b = map(read, pair)
    found = compare(a, b, limits(text))
    assert {c.quantity for c in found.changes if c.failed} == failed
    assert (found.compared, found.lost, found.new) == (2, ("old",), ("new",))


def test_what_grows_from_nothing_fails_by_any_limit() -> None:
    a, b = (Measured("k", "g", 0.0, {"spills": n}, None) for n in (0, 8))
    (change,) = compare([a], [b], limits("spills:+1000%")).changes
    assert change.failed
    assert change.growth == float("inf")


@pytest.mark.parametrize("text", ["bytes", "bytes:5%", "bytes:+5", "bytes:-5%", ":+5%"])
def test_a_limit_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(DidymaError, match="bad-option") as e:
        limits(text)
    assert e.value.got == text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": [{"name": "k"}]}', "nothing"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DidymaError, match="not-a-record") as e:
        read(path)
    assert e.value.where == str(path)


def test_compare_prints_draws_and_exits(pair: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = pair
    plain = didyma("bench", "compare", a, b)
    assert plain.code == 0
    assert "only before: old" in plain.out
    assert "k[x]" in plain.out
    plot = tmp_path / "c.svg"
    failed = didyma("bench", "compare", a, b, "--fail-on", "bytes:+0%", "--plot", plot, "--json")
    assert failed.code == 1
    found = failed.json
    assert found["failed"] == 1
    assert found["changes"][0]["quantity"] == "read"
    texts = [t.text for t in ET.parse(plot).iter("{http://www.w3.org/2000/svg}text")]
    assert "k[x]" in texts
    assert "read" in texts


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--fail-on", "ratio:+50%"), 1, "only before: old"),
        (("--fail-on", "nothing:+0%"), 2, "launches, ratio, read"),
        (("--fail-on", ",,"), 2, "NAME:+P%"),
        (("--plot", "c.png"), 2, "unknown-format"),
    ],
)
def test_compare_refuses(
    pair: tuple[Path, Path], args: tuple[str, ...], code: int, said: str
) -> None:
    done = didyma("bench", "compare", *pair, *args)
    assert done.code == code
    assert said in done.out + done.err


def test_records_without_a_benchmark_in_common_compare_nothing(tmp_path: Path) -> None:
    a, b = written(tmp_path, "a.json", row("x")), written(tmp_path, "b.json", row("y"))
    assert didyma("bench", "compare", a, b).code == 5


def test_count_writes_a_record_that_compare_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    done = didyma("bench", "count", "--workload", "transpose_f32", "--save", path, "--json")
    assert done.code == 0, done.err
    ((found,),) = done.json.values()
    assert found["extra_info"]["launches"] == 1
    assert didyma("bench", "compare", path, path, "--fail-on", "bytes:+0%").code == 0
    again = tmp_path / "b.json"
    words = ("--workload", "transpose_f32", "--save", again, "--option", "kernels.vectorise=false")
    assert didyma("bench", "count", *words).code == 0
    limits = ("--fail-on", "counters:+0%,ratio:+5%")  # counts have no times
    grown = didyma("bench", "compare", path, again, *limits)
    assert (grown.code, "accesses" in grown.out) == (1, True), grown.err
    assert didyma("bench", "compare", path, path, *limits).code == 2


def test_an_unknown_workload_or_peer_is_named() -> None:
    done = didyma("bench", "count", "--workload", "softmax")
    assert done.code == 2
    assert "softmax_bf16" in done.err
    done = didyma("bench", "gpu", "--peer", "tensorflow")
    assert done.code == 2
    assert "torch.compile" in done.err


def test_without_a_gpu_the_command_says_what_is_missing() -> None:
    done = didyma("bench", "gpu", "--json")
    if done.code == 0:
        pytest.skip("this machine has a GPU")
    assert done.code == 4
    assert done.json["error"]["code"] == "engine-missing"
