"""Any text is read or refused with `parse`: no other exception, no runaway."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse
from tests.refimpl.text.mutate import damaged, outcome, texts


def test_damaged_texts() -> None:
    sound = texts(range(40))
    r = Random(0)
    codes = Counter(outcome(damaged(r.choice(sound), r)) for _ in range(1000))
    assert codes.keys() == {"", "parse"}
    assert codes[""] > 50


@pytest.mark.parametrize(
    "deep",
    [
        "module { func @f() -> () { %x = op(a=" + "(" * 10**4,
        "module { func @f(%x: f32[" + "(" * 10**4,
        "module { func @f(%x: f32[" + "-" * 10**4,
        "module { func @f(%x: f32[" + "Max(" * 10**4,
        "kernel @f() writes () " + "{ for i in n " * 10**4,
        "kernel @f() writes () { " + "let x = 1 " * 10**4 + "}",
        "kernel @f() writes () { " + "alloc x: f32[] local " * 10**4 + "}",
        "kernel @f() writes () { " + "block { " * 10**4,
        "kernel @f() writes () { a[0] = " + "(" * 10**4,
        "kernel @f() writes () { a[0] = " + "exp(" * 10**4,
        "kernel @f() writes () { a[0] = " + "a[" * 10**4,
        "kernel @f() writes () { a[0] = " + "- " * 10**4,
        "kernel @f() writes () { a[0] = " + "(let x = " * 10**4,
        "kernel @f() writes () { a[0] = " + "1 + " * 10**4 + "1 }",
        "kernel @f() writes () { let x = "
        + "(" * 3
        + "1"
        + (" + 1" * 100 + ")") * 3
        + " barrier }",
    ],
)
def test_depth_is_bounded(deep: str) -> None:
    with pytest.raises(DidymaError, match=r"at most \d+ levels") as e:
        parse(deep)
    assert e.value.code == "parse"


@pytest.mark.parametrize(
    "size",
    ["9" * 40, "10**99", "n**99", "9**16*9**16*9**16", "(n + 1)**16*(m + 1)**16*(k + 1)**16"],
)
def test_absurd_sizes_are_refused(size: str) -> None:
    with pytest.raises(DidymaError, match="at most"):
        parse(f"module {{ func @f(%x: f32[{size}]) -> (%x) {{ }} }}")


def test_a_message_can_be_written_to_a_file() -> None:
    """Names may hold half a surrogate pair; messages may not."""
    with pytest.raises(DidymaError) as e:
        parse("module { \ud800")
    assert "\\ud800" in str(e.value)
    str(e.value).encode()


def test_a_few_words_do_not_fill_memory() -> None:
    with pytest.raises(DidymaError, match="at most 16777216 bytes"):
        parse("module { func @f() -> () { %x = constant(value=f32[99999999999] filled 0.0) } }")


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3"])
def test_an_integer_beyond_i64_as_a_float(dtype: str) -> None:
    text = "module { func @main() -> (%v) { %v = constant(value=T[] N) : T[] } }"
    parse(text.replace("T", dtype).replace("N", "15440437019406600962"))
    with pytest.raises(DidymaError, match="parse"):
        parse(text.replace("T", dtype).replace("N", "1" + "0" * 400))
