"""Tensor maps that kernels are launched with: what they say, and who is told."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.didyma_runtime.maps import WORDS, Described, encoded
from didyma.codegen.runtime.geometry import geometry
from didyma.codegen.runtime.prepared import Prepared
from didyma.codegen.runtime.record import FIXED, Launched, Part, Recording
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import ClaimedKernel, Images, Signature, TensorMap
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify import kernel as laws

ARRAY = Described(0, 8, 264, 72, 3, 264, 264 * 72, 128)
IMAGES = Described(0, 8, 72, 9, 7, 72, 648, 128, 3, 4536, -1, -2, -3, 0, 2, 1)
n = dd.dim("n", 1, 4096)


class Refusal(Exception):
    """What a driver answers that refuses."""


class Driver:
    """A driver that writes down how it is called, and numbers the maps."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, name: str, *args: Any) -> None:
        made, *rest = args
        self.calls.append((name, *(_plain(a) for a in rest)))
        assert made.value % 64 == 0
        (ctypes.c_uint64 * WORDS).from_address(made.value)[:] = [len(self.calls)] * WORDS


def _plain(a: Any) -> Any:
    row: Any = a  # an array of C's, or one of its numbers
    return tuple(row) if hasattr(row, "__len__") else getattr(row, "value", row)


def test_a_map_says_where_an_array_lies_and_is_made_once() -> None:
    made = Driver()
    assert [encoded(made, 4096, ARRAY) for _ in range(2)] == [(1,) * WORDS] * 2
    begins, steps = 4096 + 16, (528, 528 * 72)
    assert made.calls == [
        ("cuTensorMapEncodeTiled", 1, 3, begins, (264, 72, 3), steps, (64, 128, 1), (1, 1, 1),
         0, 3, 0, 0)
    ]  # fmt: skip
    assert encoded(made, 8192, ARRAY) == (2,) * WORDS
    whole = ARRAY._replace(near=256)
    encoded(made, 4096, whole)
    assert made.calls[-1][-2] != made.calls[0][-2]  # what is fetched beside


def test_a_map_of_images_says_how_pixels_are_walked() -> None:
    made = Driver()
    assert encoded(made, 4096, IMAGES) == (1,) * WORDS
    assert made.calls == [
        ("cuTensorMapEncodeIm2col", 1, 4, 4096 + 16, (72, 9, 7, 3), (144, 1296, 9072),
         (-1, -2), (-3, 0), 64, 128, (1, 2, 1, 1), 0, 3, 0, 0)
    ]  # fmt: skip
    encoded(made, 4096, IMAGES._replace(near=64))
    assert made.calls[-1][-2] == 3


def test_a_refusal_is_not_remembered() -> None:
    def refuse(*_: Any) -> None:
        raise Refusal

    for _ in range(2):
        with pytest.raises(Refusal):
            encoded(refuse, 4096, ARRAY)


def signature(**changed: Any) -> Signature:
    one = index(1)
    array = replace(TensorMap("m", "x", 0, (64, 8, 1), (64, 512), 8), **changed)
    return Signature(
        "k", (("x", DType.BF16), ("y", DType.BF16)), (index(512), index(512)), ("y",), (),
        (one, one, one), (32, 1, 1), maps=(array, replace(array, name="o", buffer="y")),
    )  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 4}, {"extents": (64, 0, 1)}, {"steps": (60, 512)},
        {"images": Images(1, 4, (0, 0), (0, 0), (1, 1))},
    ],
)  # fmt: skip
def test_no_engine_launches_with_a_map_that_a_gpu_refuses(changed: dict[str, Any]) -> None:
    with pytest.raises(DidymaError, match="map m") as e:
        geometry(signature(**changed), {})
    assert e.value.code == "launch-failed"


def test_a_prepared_launch_makes_the_maps_of_what_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, int]] = []

    def tensor_map(address: int, d: Described) -> tuple[int, ...]:
        made.append((address, d.buffer))
        return (address + d.buffer, *range(1, WORDS))

    starts: list[tuple[list[int], list[int]]] = []

    def launch(*args: Any) -> int:
        cells = (ctypes.c_void_p * 4).from_address(args[9].value)
        words = [ctypes.c_uint64.from_address(c or 0).value for c in cells]
        rows = [list((ctypes.c_uint64 * WORDS).from_address(c or 0))[1:] for c in cells[2:]]
        assert rows == [list(range(1, WORDS))] * 2
        starts.append((words[:2], words[2:]))
        return 0

    def launcher(*, early: bool) -> Any:
        del early
        return launch

    monkeypatch.setattr(driver, "tensor_map", tensor_map)
    monkeypatch.setattr(driver, "launcher", launcher)
    s = signature()
    step = Launched(s, geometry(s, {}), (Part(0, 128, 1024), Part(FIXED, 4096, 1024)), (), (), 0)
    prepared = Prepared(Recording(1, 0, (step,), ()), {"k": 7}, {}, graphs=False)
    for block in (65536, 65536, 131072):
        prepared.run((block, 0), 0)
    assert starts == [([b + 128, 4096], [b + 128, 4097]) for b in (65536, 65536, 131072)]
    assert made == [(4096, 1), (65536 + 128, 0), (131072 + 128, 0)]


@pytest.fixture(scope="module")
def program() -> Program:
    @dd.trace(dd.bf16[3, n, 512], dd.bf16[512, 1024])
    def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    return compile_module(product.module, Options(target="sm_90a")).program


def claimed(p: Program) -> ClaimedKernel:
    (k,) = p.kernels
    assert isinstance(k, ClaimedKernel)
    return k


def test_maps_of_symbols_are_printed_and_parsed(program: Program) -> None:
    of = {m.name: m.buffer for m in claimed(program).text.maps}
    assert {"left_map": "x", "right_map": "w"}.items() <= of.items()
    text = show(program)
    assert "maps (left_map of x (0, 512, " in text
    assert parse(text) == program
    with pytest.raises(DidymaError):
        parse(text.replace("left_map of x (0, ", "left_map of x ("))


def test_maps_of_images_are_printed_and_parsed() -> None:
    @dd.trace(dd.bf16[n, 9, 7, 64], dd.bf16[128, 3, 3, 64])
    def windows(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), None, (1, 2), 1)
        return dd.moveaxis(y, 1, -1)

    p = compile_module(windows.module, Options(target="sm_90a")).program
    text = show(p)
    walked = "n, 4032, -1, -1, -1, -1, 2, 1"
    assert f"(0, 64, 7, 9, 64, 448, 128, {walked})" in text
    assert parse(text) == p
    for wrong in ("n, 4032, -1, -1, -1, -1, 2", "n, 4032, -1, -1, -1, -1, 2, n"):
        with pytest.raises(DidymaError, match="two each of lower, upper and strides"):
            parse(text.replace(walked, wrong))


@pytest.mark.parametrize(
    "changed",
    [
        {"buffer": "z"}, {"rows": 257}, {"rows": 0},
        {"images": Images(1, 8, (-129, 0), (0, 0), (1, 1))},
        {"images": Images(1, 8, (0, 0), (0, 128), (1, 1))},
        {"images": Images(1, 8, (0, 0), (0, 0), (1, 9))},
    ],
)  # fmt: skip
def test_a_map_is_of_a_buffer_of_its_kernel(program: Program, changed: dict[str, Any]) -> None:
    k = claimed(program)
    first, *rest = k.text.maps
    wrong = replace(k, text=replace(k.text, maps=(replace(first, **changed), *rest)))
    with pytest.raises(DidymaError) as e:
        laws.verify(wrong)
    assert e.value.code == "P-text"
