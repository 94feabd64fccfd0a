"""Texts that readers are handed become what was kept, or are refused in words that tell them."""

from __future__ import annotations

import pytest

from didyma.codegen.emit.plain import plain
from didyma.fuzz.chooser import Dice
from didyma.fuzz.distilled import members
from didyma.fuzz.readings.cases import NEXT, READERS, Reading, changed, judged, read, recorded

KERNEL = 'extern "C" __global__ void {}k({}) {{ {} }}\n'


def head(params: str = "f32 *y, i64 n", body: str = "y[0] = 1;", above: str = "") -> str:
    """Return the head of a kernel text as it is read, or why it is refused."""
    return read(Reading("kernel", "", {}), KERNEL.format(above, params, body))


def test_some_of_each_reader_are_kept() -> None:
    kept = [m for m in members("foreign").values() if "reader" in m.facts]
    assert {m.facts["reader"] for m in kept} == READERS.keys()
    few = {m.facts["reader"]: m for m in kept}
    for m in few.values():
        found, counted = judged(recorded(m.facts, m.body))
        assert (found, counted) == ((), m.counters)


def test_a_changed_text_differs_in_a_word_and_is_read_or_refused() -> None:
    r = Reading("kernel", NEXT.join([KERNEL.format("", "f32 *y", "y[0] = 1;")] * 2), {})
    some = [changed(r, Dice(seed)) for seed in range(60)]
    assert len({x.text for x in some}) > 20
    assert not any(judged(x)[0] for x in some)
    asked = Reading("symbolic", "module", {"lives": []})
    assert changed(asked, Dice(1)) is asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (head("struct s *y"), "the argument y"),
        (head("f32 *y, struct s n"), "the argument n"),
        (head("f32 *y, ..."), "the argument ..."),
        (head(body="y[0] = exp_f32();"), "exp_f32 of 0 arguments"),
        (head(body="y[0] = (f32 *)y;"), "a cast to f32 *"),
        (head(body="y[0] = 'a';"), "the literal 'a'"),
        (head(above="__cluster_dims__(2, 2, 1) "), "clusters of blocks along x alone"),
    ],
)
def test_kernel_text_is_refused_that_says_what_nothing_reads(text: str, words: str) -> None:
    assert text.startswith("bad-kernel 1 ")
    assert words in text


CONST = "{}\n__device__ float h(float a) {{ return a; }}\n__global__ void k(float *y{}) {{ {} }}\n"


def store(constants: str, body: str, params: str = "") -> str:
    """Return the statements of a plain kernel as kernel text, or why it is not read."""
    text = read(Reading("plain", "", {}), CONST.format(constants, params, body))
    return plain(CONST.format(constants, params, body)).source if "Plain(" in text else text


def test_constants_of_plain_kernels_have_their_type_and_their_place() -> None:
    halves = store("const float A = 3; const float B = A / 2;", "y[0] = B;")
    assert "(((f32)(3)) / (f32)(2))" in halves
    assert "f32 s[6];" in store("const int A = (3 - 10) / 2;", "float s[A + 9];")
    assert "f32 s[2147483647];" in store("const unsigned A = 3 - 4;", "float s[A / 2];")
    assert "y[(i64)(0)] = (f32)(n);" in store("const int n = 3;", "y[0] = n;", ", int n")
    hidden = store("const int A = 3;", "int A = 5; float s[A];")
    assert hidden == "line 3: a size that is no constant"
    assert store("const int A = 1;", "float s[A / 0];") == "line 3: a division by zero"


def test_plain_kernels_are_outside_whose_functions_have_other_arguments() -> None:
    assert store("", "y[0] = h(1, 2);") == "line 3: the function h of 2 arguments"
    assert (
        "b8 s[4];"
        in plain(
            "__global__ void k(float *y) { extern __shared__ bool s[]; y[0] = s[0]; }", shared=4
        ).source
    )
