"""Programs are judged as modules that stand alone: what calls repeat, keep and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit import prelude
from didyma.codegen.runtime import didyma_runtime, objects
from didyma.codegen.runtime.didyma_runtime import buckets, host
from didyma.fuzz import alone
from didyma.fuzz.domains.graphs import ALONE, Graphs
from didyma.oracle.report import Finding
from didyma.refimpl.ir import aliases
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array

DOMAIN = Graphs(("host",))


def findings() -> Iterator[Finding]:
    judge = DOMAIN.judge()
    for i in range(3, 16 * ALONE, ALONE):
        case = DOMAIN.draw(2, i)
        assert case.alone
        yield from judge(case).findings


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert not [*findings()]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a->shape[k] != wanted->shape[k]", "!a->shape", ""),
        ("if (t->held[input]) python__.drop(t->held[input]);", "", "keeps input"),
    ],
)
def test_a_slip_in_what_repeats_calls_is_found(
    old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(prelude.__file__).parent / "replay.c").read_text(encoding="utf-8")
    changed = tmp_path / "replay.c"
    changed.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert changed.read_text(encoding="utf-8") != text
    monkeypatch.setattr(objects, "_OWN", ("driver.c", str(changed), "blocks.c"))
    found = next(findings())
    assert (found.level, said in found.message) == (alone.NAME, True)


def last(a: Array, shape: Sequence[int | None]) -> Array:
    return a[
        tuple(
            slice(None if n is None else size - n, None)
            for n, size in zip(shape, a.shape, strict=True)
        )
    ]


def lost(a: Array, shape: Sequence[int]) -> Array:
    return np.zeros(tuple(shape), a.dtype)


def smallest(self: buckets.Buckets, sizes: Mapping[str, int]) -> dict[str, int]:
    return {**sizes, **dict.fromkeys(self.sizes, 0)}


@pytest.mark.parametrize(
    ("of", "name", "slip"),
    [
        (buckets, "cut", last),
        (buckets, "filled", lost),
        (buckets.Buckets, "bucket", smallest),
    ],
)
def test_slips_in_how_inputs_are_padded_are_found(
    of: object, name: str, slip: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, slip)
    assert next(findings()).level == alone.NAME


def test_inputs_read_in_the_order_of_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    upload = host.Host.upload

    def in_order(self: host.Host, array: Array) -> host.Buffer:
        return upload(self, array.ravel("K").reshape(array.shape))

    monkeypatch.setattr(host.Host, "upload", in_order)
    assert "strides" in str(next(findings()))


def test_a_file_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(data: bytes, *_: Any) -> bytes:
        return data

    monkeypatch.setattr(didyma_runtime, "checked", unread)
    assert "with another last byte is taken" in next(findings()).message


def test_bytes_that_results_share_without_saying_so_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def untold(p: Program) -> Sequence[aliases.Alias]:
        return aliases.aliases(p)[1:]

    monkeypatch.setattr(alone, "aliases", untold)
    assert next(findings()).level == alone.NAME
