"""A fault of the engine ``host`` for tests in this process: ``exp`` of f32 is too large."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from didyma.codegen.runtime.host import Host
from didyma.fuzz.executor import InlineExecutor
from didyma.refimpl.ir.kernel import KernelText

_load = Host.load


def _careless(self: Host, text: KernelText) -> Any:
    return _load(self, replace(text, source=text.source.replace("exp_f32(", "exp_f32(1.001f * ")))


def _inline(*args: object) -> InlineExecutor:
    del args
    return InlineExecutor()


@contextmanager
def inline() -> Generator[None, None, None]:
    """Judge cases in this process."""
    with (
        mock.patch("didyma.fuzz.campaign.WatchedExecutor", _inline),
        mock.patch("didyma.fuzz.again.WatchedExecutor", _inline),
    ):
        yield


@contextmanager
def careless() -> Generator[None, None, None]:
    """Plant the fault, and judge cases in this process, where it is planted."""
    with mock.patch.object(Host, "load", _careless), inline():
        yield
