"""The preludes hold what the table of intrinsics promises, and give no more than is asked."""

from __future__ import annotations

import re

import pytest

from didyma.codegen.emit import prelude
from didyma.codegen.emit.intrinsics import NBYTES, TABLE, VECTORS, WIDTHS, c_type
from didyma.refimpl.ir.types import NUMBERS, DType


@pytest.mark.parametrize("target", ["host", "cuda"])
def test_every_intrinsic_is_defined(target: prelude.Target) -> None:
    held = prelude.load(target).definitions
    assert [n for n in (*TABLE, *VECTORS) if n not in held] == []


WORDS = {"u16": 2, "u32": 4, "uint2": 8, "uint4": 16}


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if c_type(d) in NBYTES])
@pytest.mark.parametrize("lanes", WIDTHS)
def test_words_on_a_gpu_are_a_whole_vector(dtype: DType, lanes: int) -> None:
    held, name = prelude.load("cuda").definitions, c_type(dtype)
    nbytes = lanes * dtype.nbytes
    for op in ("load", "store"):
        text = held[f"{op}{lanes}_{name}"]
        (found,) = re.findall(r"(\w+) words\[(\d+)\]", text)
        turns = re.findall(r"i < (\d+)", text)
        assert WORDS[found[0]] * int(found[1]) == nbytes
        assert turns == [found[1]]
        assert set(re.findall(r"\(\(?(?:const )?(\w+) \*\)", text)) == {found[0]}
    assert f"aligned({min(16, nbytes)})" in held[f"{name}x{lanes}"]


def test_what_is_not_used_is_not_there() -> None:
    text = prelude.load("host").select("y[i] = add_i32(a, b);")
    assert "#define add_i32" in text
    assert len(re.findall("FN ", text)) == 1  # the macro's own definition


def test_what_a_definition_uses_comes_before_it() -> None:
    text = prelude.load("host").select("floordiv_f32")
    order = [text.index(w) for w in ("fmodf(f32, f32);", "FN f32 truncmod_f32", "FN f32 floordiv")]
    assert order == sorted(order)


def test_no_helper_can_meet_a_name_of_the_graph() -> None:
    """Names from the graph hold no double underscore, so what a macro mentions must."""
    for target in ("host", "cuda"):
        held = prelude.load(target)
        macros = {n: d for n, d in held.definitions.items() if d.startswith("#define")}
        for name, definition in macros.items():
            used = set(held.uses(definition)) - {name}
            strange = used - set(TABLE) - set(VECTORS)
            assert all("__" in u for u in strange), (name, strange)
