"""Claimed texts become what they must, wrong ones are refused, and what is not is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from didyma.codegen.claims import claimed
from didyma.fuzz.foreign import claims
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import ClaimedKernel

CASES = 400


def kinds() -> Counter[str]:
    """Return how often each kind of finding is told of drawn claims."""
    drawn = [claims.drawn(Random(seed)) for seed in range(CASES)]
    return Counter(f.kind for c in drawn for f in claims.judged(c))


def test_claims_become_what_they_must() -> None:
    assert kinds() == {}
    spoilt = {claims.drawn(Random(seed)).spoilt for seed in range(CASES)}
    assert len(spoilt) == 19


def test_what_is_accepted_or_refused_wrongly_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def takes_all(m: Any, loops: Any, kernels: Mapping[str, Any], target: Any) -> dict[str, Any]:
        return {}

    def refuses_all(m: Any, loops: Any, kernels: Mapping[str, Any], target: Any) -> dict[str, Any]:
        raise DidymaError("parse", "here", got="a", want="b")

    monkeypatch.setattr(claims, "claimed", takes_all)
    assert kinds().keys() == {"accepted", "name"}
    monkeypatch.setattr(claims, "claimed", refuses_all)
    assert kinds() == {"refused": CASES}


@pytest.mark.parametrize("what", ["symbols", "names", "zeros", "text"])
def test_another_kernel_than_the_claimed_one_is_told(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def other(k: ClaimedKernel) -> ClaimedKernel:
        match what:
            case "symbols":
                return replace(k, dims=k.dims[::-1])
            case "names":
                kept = tuple(replace(b, name=k.meaning.params[0].name) for b in k.text.workspace)
                return replace(k, text=replace(k.text, workspace=kept, zeroed=()))
            case "zeros":
                return replace(k, text=replace(k.text, zeroed=()))
            case _:
                return replace(k, text=replace(k.text, block=(96, 1, 1)))

    def changed(*args: Any) -> dict[str, ClaimedKernel]:
        return {name: other(k) for name, k in claimed(*args).items()}

    monkeypatch.setattr(claims, "claimed", changed)
    assert kinds()[what] > 10


def test_workspace_that_is_not_zeroed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(k: ClaimedKernel, options: Any) -> tuple[ClaimedKernel]:
        return (k,)

    monkeypatch.setattr(claims, "launched", alone)
    assert kinds().keys() == {"zeros"}
