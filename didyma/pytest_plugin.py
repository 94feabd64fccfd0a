"""The plugin for pytest: tests of CUDA kernels, with seeds and certificates for each test.

It is loaded where Didyma is installed.  A test asks for the fixture ``didyma`` and calls its
``assert_kernel_correct``; the marker ``didyma`` has arguments for all calls of a test.
"""

from __future__ import annotations

import inspect
import re
from argparse import ArgumentTypeError
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from didyma.judging.asserting import Spec
    from didyma.judging.judge import Judgement

_SEEDS = "didyma/seeds"  # in pytest's cache: the seed at which a test failed, by node id
_USUAL = 1
_LONGEST = 150  # characters of a node id in the name of a file


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    group = parser.getgroup("didyma", "kernels judged by didyma")
    group.addoption(
        "--didyma-seconds", type=_seconds, default=None, metavar="S",
        help="Judge each kernel for S seconds: rounds end then, and until then new sizes and "
        "values are drawn (default: one seed, at most 7 seconds of processor time).",
    )  # fmt: skip
    group.addoption(
        "--didyma-seed", type=_seed, default=None, metavar="N",
        help="Seed of sizes and values (default: that at which the test failed last, or 1).",
    )  # fmt: skip
    group.addoption(
        "--didyma-certificates", type=Path, default=None, metavar="DIR",
        help="Folder for the certificates of kernels that are correct (default: pytest's cache).",
    )  # fmt: skip


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (found := float(text)) < inf:
            return found
    raise ArgumentTypeError(f"{text}: want a positive number of seconds")


def _seed(text: str) -> int:
    """Return a seed that a test can have: pytest keeps the one at which a test fails."""
    with suppress(ValueError):
        if (found := int(text)) >= 0:
            return found
    raise ArgumentTypeError(f"{text}: want a number from 0 on")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "didyma(**arguments): arguments of each assert_kernel_correct of a test, such as rounds=32",
    )


@dataclass(slots=True, repr=False)
class Kernels:
    """What a test of kernels uses: ``didyma.assert_kernel_correct(...)``.

    ``seed`` is that of the test: of the command line, or at which it failed last, or 1.  Once a
    kernel is not correct, it is the seed that showed it.
    """

    node: pytest.Item
    seed: int
    seconds: float | None
    folder: Path
    arguments: Mapping[str, Any]
    judged: int = field(default=0)

    def assert_kernel_correct(self, source: str | Path, spec: Spec, **arguments: Any) -> Judgement:
        """Assert that a kernel is correct, as ``didyma.testing.assert_kernel_correct`` does.

        The marker's arguments hold where ``arguments`` have none.  A relative path is one beside
        the test's file.  The certificate of a correct kernel is kept.
        """
        __tracebackhide__ = True
        from didyma.codegen.runtime.disk import must_take_files
        from didyma.judging import certificate
        from didyma.judging.asserting import NotCorrectError
        from didyma.testing import assert_kernel_correct

        given: dict[str, Any] = {
            "seed": self.seed,
            "seconds": self.seconds,
            **self.arguments,
            **arguments,
        }
        if isinstance(source, Path):
            source = self.node.path.parent / source
        must_take_files(self.folder, parents=True)
        try:
            found = assert_kernel_correct(source, spec, **given)
        except NotCorrectError as e:
            self.seed = e.seed
            raise
        self.judged += 1
        asked = {"test": self.node.nodeid}
        certificate.write(self._file(), certificate.certificate(found, asked))
        return found

    def __repr__(self) -> str:
        return f"the judge of kernels, seed {self.seed}"

    def _file(self) -> Path:
        from didyma.judging.certificate import digest

        own = self.node.nodeid
        readable = re.sub(r"[^\w.-]+", "_", own, flags=re.ASCII).strip("_")[:_LONGEST]
        name = f"{readable}-{digest(own)[:8]}"  # other ids may read the same
        return self.folder / f"{name}{f'-{self.judged}' if self.judged > 1 else ''}.json"


@pytest.fixture
def didyma(request: pytest.FixtureRequest) -> Kernels:
    """Judge kernels in this test; see ``Kernels``."""
    config, node = request.config, cast("pytest.Item", request.node)
    kept = _kept(config)
    seed = config.getoption("didyma_seed")
    if seed is None:
        seed = int(kept.get(node.nodeid, _USUAL))
    arguments: dict[str, Any] = {}
    for mark in reversed([*node.iter_markers("didyma")]):  # the nearest comes last
        arguments |= _named(node, mark)
    folder = config.getoption("didyma_certificates") or _cache_folder(config)
    return Kernels(node, seed, config.getoption("didyma_seconds"), folder, arguments)


def _named(node: pytest.Item, mark: pytest.Mark) -> Mapping[str, Any]:
    """Return the arguments of a marker; DidymaError ``bad-call`` for those of something else."""
    from didyma.refimpl.errors import DidymaError
    from didyma.testing import assert_kernel_correct

    _, _, *known = inspect.signature(assert_kernel_correct).parameters
    if strange := [*map(repr, mark.args), *(name for name in mark.kwargs if name not in known)]:
        raise DidymaError(
            "bad-call", f"the marker didyma of {node.nodeid}", got=", ".join(strange),
            want=f"arguments by name, of {', '.join(known)}",
        )  # fmt: skip
    return mark.kwargs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the seed at which a test failed; forget it where the test passes."""
    report = yield
    kernels = getattr(item, "funcargs", {}).get("didyma")
    if call.when == "call" and isinstance(kernels, Kernels) and _cache(item.config) is not None:
        kept = _kept(item.config)
        before = dict(kept)
        if report.failed:
            kept[item.nodeid] = kernels.seed
            report.sections.append(("didyma", f"--didyma-seed {kernels.seed}"))
        elif report.passed:
            kept.pop(item.nodeid, None)
        if kept != before:
            _cache(item.config).set(_SEEDS, kept)
    return report


def _cache(config: pytest.Config) -> Any:
    """Return pytest's cache; None where it is switched off."""
    return getattr(config, "cache", None)


def _kept(config: pytest.Config) -> dict[str, int]:
    cache = _cache(config)
    return {} if cache is None else dict(cache.get(_SEEDS, {}))


def _cache_folder(config: pytest.Config) -> Path:
    cache = _cache(config)
    if cache is None:
        return config.rootpath / ".didyma"
    return Path(cache.mkdir("didyma-certificates"))
