"""For the tests of those who use Didyma, or who write an engine, a planner or a peer for it.

``assert_agree`` judges arrays by the reference, ``assert_kernel_correct`` a CUDA kernel, and
``assert_intrinsic`` an intrinsic of your own.
``EngineConformance``, ``PlannerConformance``, ``PeerConformance``, ``CodegenConformance``,
``RecipeConformance`` and ``PassConformance`` are the suites that every such part must pass: pytest
collects a subclass whose name starts with ``Test``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from didyma.codegen.codegens import Codegen
from didyma.codegen.intrinsics import given
from didyma.codegen.memory.planners import Choice
from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine as made
from didyma.codegen.schedule.recipes.recipe import Recipe
from didyma.fuzz import (
    conform,
    conform_makers,
    conform_peers,
    conform_plans,
    intrinsics,
    levels,
)
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.peers.peer import Peer
from didyma.fuzz.peers.registry import peer as peer_of
from didyma.judging.asserting import Extent, Spec, draw_of, extent, require_correct, task_of
from didyma.judging.contracts import Declared
from didyma.judging.judge import Judgement
from didyma.judging.making import Launch, launch_of
from didyma.oracle import conformance
from didyma.oracle.compare import Comparison
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Bar
from didyma.running import Interpreted, interpret, outputs
from didyma.tracer.arrays import AnyArray
from didyma.tracer.tracing import Program

if TYPE_CHECKING:
    import pytest

__all__ = [
    "CodegenConformance", "EngineConformance", "PassConformance", "PeerConformance",
    "PlannerConformance", "RecipeConformance", "assert_agree", "assert_intrinsic",
    "assert_kernel_correct",
]  # fmt: skip


def assert_agree(
    actual: AnyArray | Sequence[AnyArray],
    expected: Program | Interpreted,
    *inputs: AnyArray,
    **named: AnyArray,
) -> None:
    """Assert that arrays are results that a correct implementation of a program may give.

    ``actual`` is one array, or a tuple of one for each output; ``expected`` a program with its
    inputs, or what ``dd.interpret`` made of them.  The rule is the judge's own: every element must
    lie inside its bar, and an output of which no element can be decided has not been tested, which
    fails too.  DidymaError for inputs that do not fit the program.

    >>> import didyma as dd
    >>> @dd.trace(dd.f32[3])
    ... def root(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.sqrt(x)
    >>> assert_agree(np.float32([1, 2, np.nan]), root, np.float32([1, 4, -1]))
    >>> assert_agree(np.float32([1, 2.25, np.nan]), root, np.float32([1, 4, -1]))
    Traceback (most recent call last):
    AssertionError: sqrt: 1 of 3 elements is wrong, 2 agree, 0 are undecided
      worst: sqrt[1] = 2.25, want 2.0 ± 0, off by 0.25
    """
    truth = expected
    if not isinstance(truth, Interpreted):
        truth = interpret(truth, *inputs, **named)
    given = outputs(actual)
    compared = truth.compare(given)
    rows = zip(truth.names, compared, truth.bars, given, truth.values, strict=True)
    wrong = [text for name, c, bar, a, v in rows if (text := _wrong(name, c, bar, a, DType.of(v)))]
    if wrong:
        raise AssertionError("\n".join(wrong))
    if not any(c.checked for c in compared):
        raise AssertionError("nothing was checked: no output has an element")


def assert_kernel_correct(
    source: str | Path,
    spec: Spec,
    *,
    kernel: str = "",
    grid: Extent = 1,
    block: Extent = 32,
    shared: int | str = "",
    args: Sequence[str] = (),
    flags: Sequence[str] = (),
    accumulate: str = "f32",
    order: str = "any",
    fast_math: bool = False,
    finite: bool = False,
    structure: bool = False,
    multiply: str = "f32",
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    where: Sequence[str] = (),
    values: Mapping[str, tuple[float, float]] | None = None,
    rounds: int = 16,
    seed: int = 1,
    seconds: float | None = None,
    timeout: float = 10.0,
    launches: Sequence[Mapping[str, Any]] = (),
    memory: Mapping[str, str] | None = None,
) -> Judgement:
    """Assert that a CUDA kernel computes what its specification says, as ``didyma judge`` does.

    ``source`` is a text of CUDA C++ or of PTX, or a path to one; ``spec`` a program, a function
    whose annotations are types, or a path.  ``kernel`` is its name, or an instance of a template.
    ``grid``, ``block`` and ``shared`` are numbers or expressions of the sizes of the specification,
    ``args`` items as those of ``--arg``, ``flags`` those of NVRTC.  ``accumulate``, ``order``,
    ``fast_math``, ``finite``, ``structure`` and ``multiply`` are the contract.  ``sizes`` are the
    values that a size is drawn from, ``where`` conditions on sizes, ``values`` the range of an
    input's values.
    Rounds end after 7 seconds of processor time, or after ``seconds``; if those are given, new
    seeds are tried until they have passed, for what else is wrong.  A launch counts as hung after
    ``timeout`` seconds.
    ``launches`` are several launches of one text, in order, each a mapping with ``kernel``,
    ``grid``, ``block``, ``shared`` and ``arg``, and ``memory`` what they share, such as
    ``{"part": "f32[rows, 4]"}``.

    AssertionError names what is wrong with the lines of the kernel, or what the task cannot tell
    from the right answer.  Errors: ``spec-mismatch``, ``bad-spec``, ``bad-option``,
    ``kernel-text``, ``launch-failed`` and others of ``didyma judge``; EngineMissing without NVRTC.
    """
    __tracebackhide__ = True
    one = Launch(kernel, extent(grid), extent(block), str(shared), tuple(args), tuple(flags))
    several = [launch_of(t, tuple(flags), "launches") for t in launches] or [one]
    contract = Declared(accumulate, order, fast_math, finite, structure, multiply)
    draw = draw_of(sizes, where, values, rounds, seed, seconds)
    task = task_of(source, spec, several, contract, draw, timeout, memory or {})
    return require_correct(task, seconds or 0.0)


def assert_intrinsic(
    which: str | Intrinsic,
    engines: str | Engine | Iterable[str | Engine] = "host",
    *,
    seed: int = 0,
    count: int = 4096,
) -> None:
    """Fail unless the C of an intrinsic stays within its bar on engines.

    The intrinsic, given by its registered name or as an object, is applied to ``count`` random
    operands of each float dtype and kind, as scalars and as vectors.

    Errors: ``unknown-part``, ``bad-part``, ``unknown-engine``.
    """
    one = isinstance(engines, str) or not isinstance(engines, Iterable)
    (x,) = given([which])
    several = [engines] if one else cast("Iterable[str | Engine]", engines)
    chosen = [made(cast("str | Engine", e)) for e in several]
    if found := list(intrinsics.findings(x, chosen, seed, count)):
        raise AssertionError("\n".join(found))


def _wrong(name: str, c: Comparison, bar: Bar, got: Array, dtype: DType) -> str:
    """Say what speaks against an output; empty where nothing does."""
    if c.agree:
        if c.checked or not c.total:
            return ""
        return f"{name}: undecided: none of {c.total} elements can be decided, so none was tested"
    if got.dtype != dtype.numpy or got.shape != bar.c.shape:
        return c.message
    verdict = bars.judge(bar, got, dtype)
    outside = ~verdict.ok
    count, undecided = int(outside.sum()), int(verdict.undecided.sum())
    counts = (
        f"{name}: {count} of {c.total} elements {'is' if count == 1 else 'are'} wrong, "
        f"{c.total - count - undecided} agree, {undecided} are undecided"
    )
    return f"{counts}\n  worst: {_worst(name, bar, got, dtype, outside)}"


def _worst(name: str, bar: Bar, got: Array, dtype: DType, outside: Array) -> str:
    """Describe the element that is the most bars away; NaN for a number is the farthest."""
    wide = np.longdouble if dtype is DType.F64 or not dtype.is_float else np.float64
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(wide) - bar.c.astype(wide))
        share = np.where(np.isnan(off), np.inf, off / bar.e)
    share = np.where(outside, np.where(np.isnan(share), np.inf, share), -1)
    # Of elements that are infinitely many bars away, the one with the largest error.
    most = np.flatnonzero(share.reshape(-1) == share.max())
    error = np.where(np.isnan(off), np.inf, off).reshape(-1)
    at = tuple(int(i) for i in np.argwhere(share == share.max())[error[most].argmax()])
    want, e = bar.c[at], float(bar.e[at])
    words = f"{name}{list(at)} = {_number(got[at], dtype)}, want {_number(want, dtype)} ± {e:.3g}"
    words += f", off by {float(off[at]):.3g}"
    return words if not np.isfinite(share[at]) else f"{words}: {float(share[at]):.3g} times its bar"


def _number(x: object, dtype: DType) -> str:
    return f"{float(x)!r}" if dtype.is_float else str(x)  # type: ignore[arg-type]  # a NumPy scalar


def _demand(suite: type, *names: str) -> None:
    """Raise ``bad-part`` unless a suite has what it judges, without which all of it would pass."""
    for name in names:
        if getattr(suite, name, ()) == ():
            want = "a program at least" if name == "programs" else f"the {name} that is judged"
            raise DidymaError(
                "bad-part", f"{suite.__name__}.{name}", got="nothing", want=want,
                help=f"set `{name}` in the class",
            )  # fmt: skip


class EngineConformance:
    """What every engine must do; a subclass names the engine, or gives one.

    Kernel texts with exact outputs, the engine's own buffers, and random graphs of which every
    kernel's outputs must lie in its bar and the whole program's must have the right bits.
    """

    engine: str | Engine
    graphs = 20  # random ones that are judged

    @classmethod
    def setup_class(cls) -> None:
        """Make the engine once; EngineMissing where the machine lacks what it needs."""
        cls._made = made(cls.engine)

    _made: Engine

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the tests; the cases of one text are one test.

        Texts with intrinsics that no target of the engine has are left out.
        """
        _demand(type(self), "engine")
        if "cases" in metafunc.fixturenames:
            suite = conform.suite(self.engine)
            texts = [list(g) for _, g in groupby(suite, key=lambda c: c.text)]
            metafunc.parametrize("cases", texts, ids=[f"{c[0].group}, {c[0].name}" for c in texts])
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", range(self.graphs))

    def test_kernels(self, cases: Sequence[conformance.LaunchCase]) -> None:
        """Launch the kernels of a text and compare their outputs."""
        outcomes = conformance.conform(cases, conform.Runner(self._made))
        assert [f"{o.name}: {o.wrong}" for o in outcomes if o.wrong] == []

    def test_graphs(self, seed: int) -> None:
        """Judge a random graph on the engine."""
        case = decode(Random(seed).randbytes(BYTES))
        report = levels.check(case.module, case.inputs(), [self._made], case.options(Options()))
        assert [f"{f.level} {f.where}: {f.message}" for f in report.findings] == []
        assert report.levels[-1].name == self._made.name

    def test_a_buffer_keeps_its_bytes(self) -> None:
        """Bytes go up, over, through a view, and come down as they were."""
        e, x = self._made, np.arange(512, dtype=np.int32)
        whole, other = e.upload(x), e.allocate(x.nbytes + 256)
        e.copy(other, whole)
        part = e.view(other, 256, 1024)
        assert e.download(whole, DType.I32, (2, 256)).tolist() == x.reshape(2, 256).tolist()
        assert e.download(other, DType.I32, (512,)).tolist() == x.tolist()
        assert e.download(part, DType.I32, (256,)).tolist() == x[64:320].tolist()
        e.copy(part, e.upload(x[:8]))
        assert e.download(other, DType.I32, (512,))[64:72].tolist() == x[:8].tolist()
        e.free(whole)
        e.free(other)

    def test_a_stack_gives_and_takes(self) -> None:
        """Small buffers of the stack do not overlap while both are allocated."""
        e = self._made
        first, second = e.stack(256), e.stack(100 << 10)
        for k, b in enumerate((first, second)):
            e.copy(b, e.upload(np.full(32, k, np.int64)))
        for k, b in enumerate((first, second)):
            assert e.download(b, DType.I64, (32,)).tolist() == [k] * 32
        e.unstack(second)
        e.unstack(first)

    def test_streams_may_wait_for_each_other(self) -> None:
        """Waiting and joining are calls that return."""
        self._made.wait(1, on=0)
        self._made.join()


class PlannerConformance:
    """What every planner must do; a subclass names the planner, or gives one.

    Its plans of random programs and graphs are replayed and run, its placements of random traces
    swept, by checks that share no code with any planner.
    """

    planner: Choice

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the one test by the checks of the suite."""
        if "check" in metafunc.fixturenames:
            _demand(type(self), "planner")
            checks = dict(conform_plans.suite(self.planner))
            metafunc.parametrize("check", checks.values(), ids=checks)

    def test_plan(self, check: Callable[[], Sequence[str]]) -> None:
        """Make a plan and judge it."""
        assert check() == []


class PeerConformance:
    """What every peer must do; a subclass names the peer, or gives one.

    It runs each op on its example, and programs of several ops.  It may refuse all of them but an
    ``add`` of f32, with ``peer-refused``; what it returns must lie inside the bars.
    """

    peer: str | Peer

    @classmethod
    def setup_class(cls) -> None:
        """Make the peer once; EngineMissing where its package is not installed."""
        cls._made = peer_of(cls.peer)

    _made: Peer

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the one test by the checks of the suite."""
        if "check" in metafunc.fixturenames:
            _demand(type(self), "peer")
            checks = dict(conform_peers.suite())
            metafunc.parametrize("check", checks.values(), ids=checks)

    def test_program(self, check: conform_peers.Check) -> None:
        """Run a program and judge its results."""
        assert list(check(self._made)) == []


class _MakerConformance:
    """What codegens, recipes and passes have in common: programs of their own, and random graphs.

    ``programs``, one at least, are those for which the part must do something; ``graphs`` counts
    random ones, which it may leave to others.
    """

    programs: Sequence[Program] = ()
    graphs = 10
    _part: ClassVar[str]

    @classmethod
    def _suite(cls, modules: Sequence[Module]) -> Iterable[tuple[str, conform_makers.Check]]:
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the one test by the checks of the suite."""
        if "check" in metafunc.fixturenames:
            _demand(type(self), self._part, "programs")
            checks = dict(self._suite([p.module for p in self.programs]))
            metafunc.parametrize("check", checks.values(), ids=checks)

    def test_program(self, check: conform_makers.Check) -> None:
        """Compile a program with the part, and judge every level of what comes out."""
        assert list(check()) == []


class CodegenConformance(_MakerConformance):
    """What every codegen and template must do; a subclass names it, or gives one.

    For each of its ``programs`` it must offer a kernel.  Each kernel that it offers, at most six of
    a function, runs on engine ``simt``: with all checks, and by the bars of its function.
    """

    codegen: str | Codegen
    _part = "codegen"

    @classmethod
    def _suite(cls, modules: Sequence[Module]) -> Iterable[tuple[str, conform_makers.Check]]:
        return conform_makers.of_codegen(cls.codegen, modules, cls.graphs)


class RecipeConformance(_MakerConformance):
    """What every recipe must do; a subclass names it, or gives one.

    It must suit a function of each of its ``programs``.  The kernels of its points, at most six of
    a function, are judged by the loop interpreter and on engine ``simt``.
    """

    recipe: str | Recipe
    _part = "recipe"

    @classmethod
    def _suite(cls, modules: Sequence[Module]) -> Iterable[tuple[str, conform_makers.Check]]:
        return conform_makers.of_recipe(cls.recipe, modules, cls.graphs)


class PassConformance(_MakerConformance):
    """What every graph pass must do; a subclass names it, or gives a function of modules.

    It must change each of its ``programs``, alike at each call, and what comes out must mean the
    same and compile.
    """

    graph_pass: ClassVar[conform_makers.Pass]
    _part = "graph_pass"

    @classmethod
    def _suite(cls, modules: Sequence[Module]) -> Iterable[tuple[str, conform_makers.Check]]:
        return conform_makers.of_pass(cls.graph_pass, modules, cls.graphs)
