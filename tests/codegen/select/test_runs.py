"""Launches of a candidate: one by one, or many at the pace of an engine that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from didyma.codegen.select.runs import Launch, Launches


class Plain:
    """Kernels that are launched one by one."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Any],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        self.log.append(kernel)


class Repeating(Plain):
    """Kernels that one call launches many times."""

    made = 0

    def repeated(
        self, launches: Sequence[Launch], dims: Mapping[str, int], times: int
    ) -> Callable[[], None]:
        self.made += 1
        return lambda: self.log.extend(times * ["".join(name for name, _ in launches)])


def test_kernels_are_launched_in_their_order() -> None:
    loaded = Plain()
    runs = Launches(loaded, [("a", []), ("b", [])], {})
    runs()
    runs.several(2)
    assert "".join(loaded.log) == "ababab"


def test_what_repeats_is_made_once_for_each_number() -> None:
    loaded = Repeating()
    runs = Launches(loaded, [("a", []), ("b", [])], {})
    for times in (1, 3, 2, 3):
        runs.several(times)
    assert "".join(loaded.log) == "ab" * 9
    assert loaded.made == 2
