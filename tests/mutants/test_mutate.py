"""What is changed in a text of Python, and in one of C."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

import pytest

from tests.mutants import unit_tests
from tests.mutants.checks import Check
from tests.mutants.equivalents import Entry, load, reason, unmatched
from tests.mutants.hunting import Queue
from tests.mutants.marking import Mark
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.mutate import c, python
from tests.mutants.planting import compiles, identical
from tests.mutants.prelude import definitions, paragraph
from tests.mutants.reach import Lines
from tests.mutants.reached import Reached
from tests.mutants.recording import record
from tests.mutants.sources import every, sample

PYTHON = """
def f(m: list[int], xs: tuple[int, ...]) -> list[int]:
    {before}
    return m
"""


def mutated(line: str) -> dict[str, set[str]]:
    """What becomes of a line of a function, by operator; itself where the next line changes."""
    source = PYTHON.format(before=line)
    found: dict[str, set[str]] = {}
    for site, _ in python.mutants(source):
        text = source[: site.start] + site.new + source[site.end :]
        found.setdefault(site.operator, set()).add(text.splitlines()[2].strip())
    return found


@pytest.mark.parametrize(
    ("line", "operator", "becomes"),
    [
        ("x = m[0] < 2", "boundary", {"x = m[0] <= 2"}),
        ("x = m is not None", "comparison", {"x = m is None"}),
        ("x = m not in xs", "comparison", {"x = m in xs"}),
        ("x = a * (b + c)", "arithmetic", {"x = a // (b + c)", "x = a * (b - c)"}),
        ("x = 7", "constant", {"x = 8", "x = 6"}),
        ("m.clear()", "dropped statement", {"pass"}),
        ("m += 1", "dropped statement", {"pass"}),
        ("m = sorted(m)", "dropped statement", {"pass"}),
        ("x = (Barrier(), y)", "dropped barrier", {"x = (y,)"}),
        ("if m: x()", "guard", {"if True: x()", "if False: x()"}),
        ("x = a and (b or c)", "dropped condition",
         {"x = ((b or c))", "x = (a)", "x = a and ((c))", "x = a and ((b))"}),
        ("x = g(a, b)", "swapped arguments", {"x = g(b, a)"}),
        ('x = Binary("sub", a, b)', "swapped arguments",
         {'x = Binary(a, "sub", b)', 'x = Binary("sub", b, a)'}),
        ('x = Binary("eq", a, b, c)', "swapped arguments", {'x = Binary("eq", a, c, b)'}),
        ("x = DType.F32", "dtype", {"x = DType.F64"}),
        ("x = floor(m)", "rounding", {"x = ceil(m)"}),
        ("x = not m", "negation", {"x = m"}),
        ("return m[:1]", "return value", {"return m", "return list()"}),
        ("x = m[1:n]", "slice bounds", {"x = m[:n]", "x = m[1:]", "x = m[1:n + 1]"}),
        ("x = max(m)", "min and max", {"x = min(m)"}),
        ("x = sorted(m, key=k)", "sort key", {"x = list(m, key=k)", "x = sorted(m)"}),
        ("for i in range(n): x()", "boundary",
         {"for i in range(n + 1): x()", "for i in range(n - 1): x()"}),
        ("x = [i for i in m if i]", "guard", {"x = [i for i in m if True]"}),
    ],
)  # fmt: skip
def test_a_line_of_python_is_changed(line: str, operator: str, becomes: set[str]) -> None:
    assert mutated(line)[operator] - {line} == becomes


@pytest.mark.parametrize(
    "line",
    [
        'raise ValueError(f"{1 + 2}")', "assert 1 < 2", "x: int", "x = zip(m, strict=True)",
        "def wrong() -> DidymaError: return DidymaError(m + 1)",
    ],
)  # fmt: skip
def test_what_is_raised_asserted_or_declared_stays(line: str) -> None:
    assert not {x for xs in mutated(line).values() for x in xs} - {line}


@pytest.mark.parametrize(
    ("text", "operator", "becomes"),
    [
        ("if (i < n) { }", "boundary", "if (i <= n) { }"),
        ("if (i < n) { }", "guard", "if (1) { }"),
        ("  x = a + b;", "arithmetic", "  x = a - b;"),
        ("  x = 0x10u;", "constant", "  x = 0x11u;"),
        ("  __syncthreads();", "dropped barrier", "  ;"),
        ("  y[0] = x;", "index", "  y[1] = x;"),
        ("  y = sub_i32(a, b);", "swapped arguments", "  y = sub_i32(b, a);"),
        ("  y = min_f32(a, b);", "min and max", "  y = max_f32(a, b);"),
        ("  y = cast_f32_f16(a);", "dtype", "  y = cast_f32_bf16(a);"),
        ("  y = floordiv_i64(a, b);", "rounding", "  y = truncdiv_i64(a, b);"),
        ("  return x;", "return value", "  return 0;"),
        ("  b = !a;", "negation", "  b = a;"),
    ],
)
def test_a_line_of_c_is_changed(text: str, operator: str, becomes: str) -> None:
    found = [text[: x.start] + x.new + text[x.end :] for x in c.changes(text)]
    assert becomes in found
    assert operator in {x.operator for x in c.changes(text)}


def test_comments_pragmas_and_types_of_parameters_stay() -> None:
    kernel = (
        "// a < b + 1\n"
        'extern "C" __global__ void __launch_bounds__(32)\n'
        "k(const f32 *__restrict__ a, f32 *__restrict__ b, i64 n) {\n"
        "  #pragma unroll 4\n"
        "  b[threadIdx.x] = a[blockIdx.x];  /* 1 + 1 */\n"
        "}\n"
    )
    found = {kernel[: s.start].count("\n") for s in c.kernels(kernel)}
    assert found == {4}
    assert {s.scope for s in c.kernels(kernel)} == {"k"}


def of(source: str, file: str = "codegen/x.py") -> list[Mutant]:
    return [Mutant("passes", file, source, s, n) for s, n in python.mutants(source)]


def test_an_id_outlives_moved_lines_and_ends_with_the_function() -> None:
    one = "def f(a: int, b: int) -> bool:\n    return a < b\n"
    ids = [m.id for m in of(one)]
    assert [m.id for m in of("import os\n\n" + one)] == ids
    assert len({*ids}) == len(ids)
    assert not {*ids} & {m.id for m in of(one.replace("< b", "< b + 1"))}


def test_a_diff_is_that_of_the_source() -> None:
    m = next(m for m in of("def f(a: int) -> bool:\n    return a < 2\n") if m.site.new == "<=")
    assert m.diff.splitlines()[2:] == ["@@ -2 +2 @@", "-    return a < 2", "+    return a <= 2"]
    assert m.line == 2


def test_identical_bytecode_is_no_change() -> None:
    same = [m for m in of("def f(x):\n    if True:\n        return x\n") if m.site.new == "True"]
    assert not same or all(map(identical, same))
    source = "def f(x):\n    return x + (3 - 1)\n"
    changes = {m.mutated: identical(m) for m in of(source)}
    assert changes["def f(x):\n    return x + (3 + 1)\n"] is False
    moved = of("def f(x, y):\n    return g(x, y)\n")
    assert not any(map(identical, moved))


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return list(every())


def test_a_sample_is_spread_over_groups_and_repeats(mutants: list[Mutant]) -> None:
    pool = [m for m in mutants if m.group in ("passes", "lower", "prelude")]
    drawn = sample(pool, 30, 5)
    assert [m.id for m in drawn] == [m.id for m in sample(pool, 30, 5)]
    counts = [sum(m.group == g for m in drawn) for g in ("passes", "lower", "prelude")]
    assert counts == [10, 10, 10]
    assert all(map(compiles, drawn))
    assert all(m.mutated != m.source for m in drawn)


def test_equivalents_match_ids_and_functions_and_stale_ones_are_told() -> None:
    mutants = of("def f(a: int) -> bool:\n    return a < 2\n")
    by_id = Entry("no input is 2", id=mutants[0].id)
    by_scope = Entry("a choice", file="codegen/x.py", scope="f*", operator="constant")
    stale = Entry("gone", id="0" * 12)
    assert reason(mutants[0], [stale, by_id]) == "no input is 2"
    kinds = {m.site.operator for m in mutants if reason(m, [by_scope])}
    assert kinds == {"constant"}
    assert not any(reason(m, [by_scope], reached=False) for m in mutants)
    assert unmatched([by_id, by_scope, stale], mutants) == ["0" * 12]


def test_every_equivalent_of_the_list_is_still_there(mutants: list[Mutant]) -> None:
    assert not unmatched(load(), mutants), "drop these entries, or give them their new ids"


def test_definitions_of_the_prelude_are_found_by_what_they_look_like() -> None:
    text = "\n\n".join(
        (
            "//: T in signed\nFN T abs_T(T a) { return a; }",
            "//: F in floats, T in u8\nFN T cast_F_T(F x) { return x; }",
            "/* a comment */",
        )
    )
    found = definitions(text)
    assert [line for line, _ in found] == [1, 4]
    assert [bool(p.search("abs_i32(x)")) for _, p in found] == [True, False]
    assert [bool(p.search("cast_f32_u8(x)")) for _, p in found] == [False, True]
    assert not found[0][1].search("abs_f32(x)")


SMALL = "A = 3\n\n\ndef f(x: int) -> int:\n    if x:\n        x += 1\n    return x\n"


def recorded() -> Reached:
    """Eight cases, of which the first four were recorded: in two, other lines are executed."""
    r = Reached({"host": 8})
    r.note("host", 0, [("codegen/x.py", 5), ("codegen/x.py", 7)], 0.1)
    r.note("host", 2, [("codegen/x.py", 5), ("codegen/x.py", 6)], 0.1)
    r.note("host", 3, [], 0.1)
    return r


def test_a_mutant_meets_first_the_cases_that_execute_its_line() -> None:
    r = recorded()
    body, module = (
        next(m for m in of(SMALL) if m.line == n and m.site.operator == "constant") for n in (6, 1)
    )
    assert r.queues(body) == {"host": Queue([2], (4, 5, 6, 7, 0), 0.5)}
    assert r.queues(module) == {"host": Queue([0, 2], (4, 5, 6, 7), 0.5)}
    unreached = next(m for m in of(SMALL, "codegen/y.py") if m.line == 6)
    assert r.queues(unreached) == {"host": Queue([], (4, 5, 6, 7), 0.0)}


def test_cases_that_are_wrong_without_a_mutant_are_left_out() -> None:
    r = recorded()
    r.note_wrong("host", 2, "no")
    r.note_wrong("host", 5, "no")
    body = next(m for m in of(SMALL) if m.line == 6 and m.site.operator == "constant")
    assert r.queues(body)["host"].all == (4, 6, 7, 0)


def test_a_record_is_kept_in_a_file(tmp_path: Path) -> None:
    r = recorded()
    r.note_wrong("host", 2, "no")
    r.decisions["host"] = {"fold": 0b101}
    r.spent = 3.5
    r.save(tmp_path / "new" / "a.json")
    assert Reached.load(tmp_path / "new" / "a.json") == r
    (tmp_path / "new" / "a.json").write_text('{"lines": 3}')
    assert Reached.load(tmp_path / "new" / "a.json") is None


def test_recording_takes_turns_ends_in_time_and_goes_on() -> None:
    def judge(index: int) -> None:
        end = process_time() + 0.02
        while process_time() < end:
            paragraph("\n", 0)

    checks = [Check(name, 999, lambda: judge) for name in ("a", "b")]
    r = Reached({c.name: c.cases for c in checks})
    with mock.patch("tests.mutants.recording._TURN", 0.5):
        record(r, checks, 1.0, 1, lambda: True, lambda done, of: None)
        first = dict(r.counts)
        record(r, checks, 1.5, 1, lambda: True, lambda done, of: None)
    assert all(15 < first[name] < 30 for name in "ab")
    assert r.counts["a"] > first["a"]
    assert r.counts["b"] == first["b"]
    assert 1.5 <= r.spent < 3.0


@pytest.mark.parametrize(
    ("line", "executed"),
    [("m.append(1)", {True}), ("if xs: m.append(1)", {False}), ("while xs: m.append(1)", {False}),
     ("for x in xs: m.append(1)", {False}), ("try: m.append(1)\n    finally: pass", {True})],
)  # fmt: skip
def test_a_mark_says_whether_a_mutant_is_executed(line: str, executed: set[bool]) -> None:
    told: set[bool] = set()
    for m in of(PYTHON.format(before=line)):
        if m.site.operator != "constant":
            continue
        mark = Mark()
        there: dict[str, Any] = {}
        exec(compile(mark.code(m), "x", "exec"), there)
        assert not mark.take()
        there["f"]([], ())
        told.add(mark.take())
        assert not mark.take()
    assert told == executed


def test_a_mark_outside_functions_is_always_executed() -> None:
    module = next(m for m in of(SMALL) if m.line == 1)
    mark = Mark()
    mark.code(module)
    assert mark.take()
    assert mark.take()


@pytest.mark.parametrize("use", ["raise E(want)", "raise E(str(want))", "e = DidymaError(want)"])
def test_what_only_error_messages_show_stays(use: str) -> None:
    assert "constant" not in mutated(f"want = 1; {use}")
    assert mutated(f"want = 1; g(want); {use}")["constant"]


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("codegen/runtime/tinycc.py", "tests/codegen/runtime/"),
        ("codegen/passes/algebra.py", "tests/codegen/passes/"),
        ("codegen/select/race.py", "tests/codegen/select/test_race.py"),
        ("codegen/emit/text_kernel.py", "tests/codegen/test_text_kernels.py"),
        ("codegen/schedule/sorting.py", "tests/codegen/schedule/recipes/test_recipes.py"),
    ],
)
def test_the_tests_of_a_file_are_those_that_import_it_or_of_its_folder(
    file: str, tests: str
) -> None:
    found = [unit_tests.every()[i].relative_to(ROOT).as_posix() for i in unit_tests.of(file)]
    assert found[0].startswith(tests)
    assert len({*found}) == len(found) <= unit_tests.MOST


def test_what_has_no_tests_of_codegen_has_none() -> None:
    assert unit_tests.of("codegen/emit/prelude/common.c") == ()
    copies = unit_tests.of("codegen/emit/prelude/host_families.c", "cp_async16_T")
    assert "test_cp_async.py" in {unit_tests.every()[i].name for i in copies[:2]}
    assert unit_tests.of("kernel text of program 3") == ()


def test_lines_are_recorded_until_calls_bring_nothing_new() -> None:
    lines = Lines(("tests/mutants",))

    def work() -> int:
        return sum(paragraph("\n\n", i % 3) for i in range(2000))

    _, once = lines.of(lambda: paragraph("", 0))
    result, many = lines.of(work)
    assert result > 2000
    here = {n for file, n in many if file == "tests/mutants/prelude.py"}
    assert here == {n for file, n in once if file == "tests/mutants/prelude.py"}
    assert any(file.endswith("test_mutate.py") for file, _ in many)


def test_every_file_of_codegen_that_runs_here_has_mutants(mutants: list[Mutant]) -> None:
    files = {m.file for m in mutants}
    assert "codegen/emit/prelude/driver.c" in files
    assert "codegen/runtime/cuda.py" not in files
    libraries = {m.site.scope for m in mutants if m.file == "codegen/runtime/libraries.py"}
    assert "library" in libraries
    assert "Torch.lies" not in libraries
    driver = [m for m in mutants if m.file.endswith("driver.c")]
    frames = {d for m in driver for d in m.diff.splitlines() if d.startswith("-#define FRAME__")}
    assert len(frames) <= 1, "those of one processor"
    assert all((ROOT / f).exists() for f in files)
