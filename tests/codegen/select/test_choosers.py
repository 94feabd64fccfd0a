"""Choosers: the model, a record, the cache, a measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule.recipes.point import parse_all, show_all
from didyma.codegen.select import Cache, Choice, Heuristic, Pinned, Tuned
from didyma.codegen.select.cache import Pick
from didyma.codegen.select.choice import build, first
from didyma.codegen.select.choosers import Entry, Request, choose_all, pinned, record
from didyma.codegen.select.keys import Argument, key_of
from didyma.refimpl.errors import DidymaError
from tests.codegen.select.make import N, loop, request, row_sum

ROW, COLUMN = (
    Choice.parse("row(groups=4, lanes=32, wide=1)"),
    Choice.parse("column(layers=8, side=8)"),
)


def pick(r: Request, choice: Choice = ROW) -> Pick:
    text = build(r.loop, r.options, choice).digest
    key = r.key
    return Pick(key.digest, str(choice), text, key.function, r.target, key.text, 1.0, 2.0)


def test_the_model_picks_what_a_compile_takes() -> None:
    assert Heuristic().choose(request()) == first(loop(), Options())


def test_a_record_pins() -> None:
    f = loop()
    data = record({"main": f}, {"main": COLUMN})
    assert pinned(data).choose(request(f)) == COLUMN
    assert pinned({"main": str(COLUMN)}).choose(request(f)) == COLUMN
    assert Pinned().choose(request(f)) == first(f, Options())


def test_a_choice_for_another_function_of_the_name_is_refused() -> None:
    data = record({"main": loop(6, 91)}, {"main": COLUMN})
    with pytest.raises(DidymaError, match="another function") as caught:
        pinned(data, "choices.json").choose(request())
    assert caught.value.code == "bad-choice"
    assert caught.value.where == "choices.json: main"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (3, "bad-choice"),
        ({"choices": []}, "bad-choice"),
        ({"main": 3}, "bad-choice"),
        ({"main": {}}, "bad-choice"),
        ({"main": "row"}, "bad-choice"),
        ({"version": 9, "choices": {}}, "newer-format"),
    ],
)
def test_what_is_no_record_is_refused(data: Any, code: str) -> None:
    with pytest.raises(DidymaError) as caught:
        pinned(data)
    assert caught.value.code == code


def test_a_record_that_names_a_function_which_is_not_there_is_refused() -> None:
    chooser = Pinned({"other": Entry(ROW)})
    with pytest.raises(DidymaError, match="one of main"):
        choose_all({"main": loop()}, Options(), chooser, "host", "t")


def test_the_cache_answers_for_its_key_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    r = request()
    cache.add(pick(r))
    chooser = Tuned(cache)
    assert chooser.choose(r) == ROW
    usual = first(r.loop, r.options)
    assert chooser.choose(replace(r, target="host: other")) == usual
    small = Options(kernels=KernelOptions(block=64))
    assert chooser.choose(replace(r, options=small)) == first(r.loop, small)


def test_a_pick_for_another_layout_does_not_answer(tmp_path: Path) -> None:
    """A key without strides would answer here."""
    cache = Cache(tmp_path / "c.sqlite")
    r = request()
    padded = Argument("x", loop().params[0].dtype, (6, 90), (96, 1))
    other = key_of(r.loop, r.target, {}, r.options, {"x": padded})
    cache.add(replace(pick(r), key=other.digest, conditions=other.text))
    assert Tuned(cache).choose(r) == first(r.loop, r.options)


def test_sizes_of_one_bucket_share_a_pick(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    f = loop(N, 90)
    cache.add(pick(request(f, n=600)))
    assert Tuned(cache).choose(request(f, n=1000)) == ROW
    assert Tuned(cache).choose(request(f, n=1025)) == first(f, Options())


def test_what_the_cache_lacks_is_measured(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    asked: list[str] = []

    def measure(r: Request) -> Pick:
        asked.append(r.name)
        return cache.add(pick(r, COLUMN))

    chooser = Tuned(cache, measure)
    assert [chooser.choose(request()) for _ in range(2)] == [COLUMN, COLUMN]
    assert asked == ["main"]


def test_a_pick_whose_kernels_have_changed_is_measured_again(tmp_path: Path) -> None:
    """A kernel that was never judged is not taken on the word of another one."""
    cache = Cache(tmp_path / "c.sqlite")
    r = request()
    cache.add(replace(pick(r), text="of an older compiler"))
    assert Tuned(cache).choose(r) == first(r.loop, r.options)
    assert Tuned(cache, lambda r: pick(r, COLUMN)).choose(r) == COLUMN


def test_a_pick_that_does_not_apply_any_more_is_measured_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    r = request()
    cache.add(replace(pick(r), choice="matmul(tile=16)"))
    assert Tuned(cache).choose(r) == first(r.loop, r.options)


def test_a_compile_takes_the_choices_of_its_options() -> None:
    m = row_sum(6, 90)
    lowered = compile(m, Options(), until="lower")
    name = next(iter(lowered.loops))
    text = show_all({name: COLUMN.points})
    options = Options(kernels=KernelOptions(choices=text))
    (kernel,) = compile(m, options, until="schedule").kernels[name]
    assert dict(kernel.attrs)["schedule"] == "reduce_column"
    assert Options.recorded(options.record()) == options
    assert parse_all(text) == {name: COLUMN.points}


@pytest.mark.parametrize("text", ["main", ": row()", "f: row() | f: row()", "f: row"])
def test_a_text_that_is_no_list_of_choices_is_refused(text: str) -> None:
    with pytest.raises(DidymaError) as caught:
        parse_all(text)
    assert caught.value.code == "bad-choice"
