"""Transpositions whose results begin between sectors of memory store whole sectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.engine import Simt

SM_90A = dd.Options(target="sm_90a")
N = dd.dim("n", 1, 90)


def turned(x: dd.Tensor) -> dd.Tensor:
    return dd.transpose(x)


def batched(x: dd.Tensor) -> dd.Tensor:
    return dd.matrix_transpose(x)


def rotated(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (2, 0, 1))


def fused(x: dd.Tensor) -> dd.Tensor:
    return dd.exp(dd.transpose(x)) + 1.0


def pinned(p: dd.Program, **values: int) -> dict[str, str]:
    """Return the choice of the model with other values."""
    (chosen,) = dd.compile(p, engine="simt", options=SM_90A).choices["choices"].items()
    name, found = chosen[0], chosen[1]["choice"]
    table = dict(pair.split("=") for pair in found[found.index("(") + 1 : -1].split(", "))
    table |= {k: str(v) for k, v in values.items()}
    return {name: f"transpose({', '.join(f'{k}={v}' for k, v in sorted(table.items()))})"}


@pytest.mark.parametrize(
    ("f", "type_"),
    [
        (turned, dd.f32[67, 131]),
        (turned, dd.bf16[37, 70]),
        (turned, dd.f64[131, 35]),
        (turned, dd.i8[75, 101]),
        (batched, dd.f32[3, 45, 71]),
        (rotated, dd.f32[5, 37, 69]),
        (fused, dd.f32[37, 67]),
        (turned, dd.f32[N, 67]),
        (turned, dd.f32[67, N]),
    ],
)
@pytest.mark.parametrize("shape", [{}, {"side": 64, "rows": 4}, {"side": 16, "rows": 16}])
def test_slanted_tiles_agree(f: Callable[..., Any], type_: Any, shape: dict[str, int]) -> None:
    types: tuple[Any, ...] = (type_,)
    p: dd.Program = dd.trace(*types)(f)
    choice = pinned(p, skew=1, **shape)
    options = SM_90A.changed({"kernels.choices": "; ".join(f"{k}: {v}" for k, v in choice.items())})
    report = dd.check(p, engines=["simt"], options=options, tries=1)
    assert report.agree, [str(x) for x in report.findings]


def stored(monkeypatch: pytest.MonkeyPatch, p: dd.Program, x: Any, skew: int) -> float:
    """Return in how many sectors warps store, over those that the result fills."""
    touched, real = defaultdict[tuple[int, ...], set[int]](set), access.store
    number = [0]

    def watched(r: Any, a: Any, index: Any, value: Any, m: Any, *rest: Any, **named: Any) -> Any:
        if a.name not in ("x", "x_tile"):
            number[0] += 1
            who = r.who(m)
            blocks = r.lanes(r.axes["blockIdx", "x"])[who]
            rows = r.lanes(r.axes["threadIdx", "y"])[who]
            lanes = r.lanes(r.axes["threadIdx", "x"])[who] // 32
            for *key, i in zip(blocks, rows, lanes, r.lanes(index)[who], strict=True):
                touched[number[0], *map(int, key)].add(int(i) * x.itemsize // 32)
        return real(r, a, index, value, m, *rest, **named)

    exe = dd.compile(p, engine=Simt(), options=SM_90A, choose=pinned(p, skew=skew))
    monkeypatch.setattr(access, "store", watched)
    assert np.array_equal(np.asarray(exe(x)), x.T)
    monkeypatch.undo()
    return sum(map(len, touched.values())) * 32 / float(x.nbytes)


def test_warps_store_whole_sectors(monkeypatch: pytest.MonkeyPatch) -> None:
    p = dd.trace(dd.f32[205, 131])(turned)
    x = np.random.default_rng(0).standard_normal((205, 131), np.float32)
    slanted, straight = (stored(monkeypatch, p, x, skew) for skew in (1, 0))
    assert slanted < 1.05 < 1.15 < straight


def test_rows_that_begin_at_sectors_have_straight_tiles() -> None:
    (choice,) = (
        dd.compile(dd.trace(dd.f32[64, 131])(turned), engine="simt", options=SM_90A)
        .choices["choices"]
        .values()
    )
    assert "skew" not in choice["choice"]
