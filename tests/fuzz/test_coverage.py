"""What a campaign covers: keys of cases, the report, its page, and lines of the compiler."""

from __future__ import annotations

import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from didyma.codegen.rules import rules
from didyma.fuzz import coverage
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import Case
from didyma.fuzz.lines import FOLDER, missed, must_be_possible
from didyma.fuzz.records import record
from didyma.fuzz.result import Result, Tally
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.show.campaign import ranges
from didyma.show.coverage_page import page

TEXT = """module {
  dims n in [1, 8]
  func @main(%x: f16[n, 4], %y: f16[n, 4]) -> (%m) {
    %s = add(%x, %y) : f16[n, 4]
    %c = cast(%s, dtype="f32") : f32[n, 4]
    %m = max(%c, axes=(1,), keepdims=false) : f32[n]
  }
}""".replace('"f32"', "f32")


def test_keys_of_a_graph() -> None:
    case = Case(parse_module(TEXT), (("n", 3),), (0, 0))
    found = coverage.keys(case, case.inputs())
    assert ("dtype", "add", "f16") in found
    assert ("dtype", "max", "f32") in found
    assert ("rank", "cast", "2 symbolic") in found
    assert {("pair", "add", "cast"), ("pair", "cast", "max")} == {
        k for k in found if k[0] == "pair"
    }
    assert ("attribute", "max", "axes: 1") in found
    assert ("attribute", "max", "keepdims: false") in found
    assert ("operand", "cast", "max 0") not in found, "it has one operand"
    assert {k[1] for k in found if k[0] == "value"} == {"add"}


def test_a_report_says_what_was_never_seen() -> None:
    name = rules()[0].name
    r = Result(tallies={
        "graphs": Tally(covered=Counter({("dtype", "add", "f32"): 3, ("decision", name): 2})),
        "passes": Tally(covered=Counter({("decision", name): 5})),
    })  # fmt: skip
    report = coverage.report(r)
    assert report["dtypes"] == {"add": {"f32": 3}}
    assert "add f32" not in report["never"]["dtypes"]
    assert "add f64" in report["never"]["dtypes"]
    assert sum(n["fired"] for of in report["decisions"].values() for n in of.values()) == 7
    assert name not in report["never"]["decisions"]
    assert len(report["never"]["decisions"]) == len({d.name for d in rules()}) - 1
    assert report["lines"] == {}


class Tags(HTMLParser):
    """Counts the elements of a page, and those that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Counter[str]()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.seen[tag] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_shows_a_campaign(tmp_path: Path) -> None:
    del tmp_path
    d = Graphs(("host",))
    r = run(Plan((d,), count=6, seed=1), executor=InlineExecutor())
    seen = record(r, [d], each=True)
    tags = Tags()
    tags.feed(page(seen))
    cells = sum(map(len, seen["report"]["dtypes"].values()))
    cells += sum(map(len, seen["report"]["ranks"].values()))
    cells += sum(map(len, seen["report"]["neighbours"].values()))
    cells += sum(map(len, seen["report"]["values"].values()))
    assert tags.seen["title"] == 1 + cells + len(seen["report"]["never"]["dtypes"])
    assert tags.seen["circle"] == len(seen["report"]["never"]["dtypes"]) > 0
    assert "What 6 cases covered" in tags.text
    for word in ("Fired", "Mattered", "Checked", "Domains", "not examined"):
        assert word in tags.text
    assert "src=" not in page(seen), "it needs nothing else"
    assert "http://" not in page(seen)


def test_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"


def test_lines_of_functions_alone_can_be_missed() -> None:
    never = missed(())
    (path,) = [p for p in never if p == "order/streams.py"]
    source = (FOLDER / path).read_text().splitlines()
    assert all(not source[n - 1].startswith(("import", "from", "class")) for n in never[path])
    every = {(p, n) for p, lines in never.items() for n in lines}
    assert missed(every) == {}
    assert missed(every - {(path, never[path][0])}) == {path: (never[path][0],)}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python can watch lines")
def test_lines_need_a_newer_python() -> None:
    with pytest.raises(DidymaError, match=r"Python 3\.12"):
        must_be_possible()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_lines_of_a_campaign_are_watched_in_its_processes() -> None:
    r = run(Plan((Graphs(("host",)),), count=4, seed=1, jobs=2, lines=True))
    assert ("pipeline.py", 1) not in r.reached
    assert len(r.reached) > 500
    assert sum(map(len, missed(r.reached).values())) > 100
