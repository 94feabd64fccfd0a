"""A state machine over planner, aliasing and execution together.

Rules write a program line by line, and at any time plan and run what is there.  A number drawn
for a choice is taken modulo what there is to choose from, so that 0 is the simplest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import Choice
from didyma.fuzz.allocator import judge
from didyma.fuzz.allocator.judge import Verdict
from didyma.fuzz.allocator.kernels import DTYPES, At, movers
from didyma.fuzz.allocator.maker import Maker
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import DType, TensorType

NUMELS = (1, 16, 64, 65, 0, 128, 200, 5)
CHOICE = st.integers(0, 1 << 12)
CHOICES = st.lists(CHOICE, min_size=1, max_size=2)
MOST_DEPTH = 3
NAMES = ("linear_scan", "greedy_by_size", "size_class", "didyma", "none")

T = TypeVar("T")
Planned = Callable[[Program, Choice], Program]


def planned(bare: Program, which: Choice, *, eager: bool = False) -> Program:
    """Plan a program by a planner, given by name or as an object; its movers may become views.

    An ``eager`` plan leaves out whatever copies and bytes it may, at any peak.
    """
    return plan(bare, planner(which), movers=movers(bare), eager=eager)


class BrokenPlanError(AssertionError):
    """A check has something against a plan."""

    def __init__(self, name: str, verdicts: Sequence[Verdict], bare: Program) -> None:
        said = "\n".join(f"  {v.check}: {v.message}" for v in verdicts)
        super().__init__(f"planner {name}:\n{said}\n{show(bare)}")


class MemoryMachine(RuleBasedStateMachine):
    """Programs without memory in the making; ``make_plan`` gives them memory."""

    make_plan: Planned = staticmethod(planned)

    def __init__(self) -> None:
        super().__init__()
        self.m = Maker()
        self.returned: list[str] = []
        self.numels: list[Dim] = []

    @initialize(symbolic=st.booleans(), low=st.integers(0, 2), span=st.integers(0, 40))
    def begin(self, symbolic: bool, low: int, span: int) -> None:
        """Take inputs; symbols are bound by the first ones."""
        self.numels = list(NUMELS)
        if symbolic:
            self.m = Maker((DimVar("n", low, low + span),))
            n = symbol("n")
            self.m.input(TensorType(DType.I32, (n,)))
            self.numels = [n, dims.mul(2, n), dims.add(n, 1), low + span, low, *NUMELS[:3]]
        self.m.input(TensorType(DType.I32, (16,)))

    # ---- choices

    def of(self, options: Sequence[T], k: int) -> T:
        """Choose."""
        return options[k % len(options)]

    def type(self, k: int) -> TensorType:
        """Choose a type."""
        k, d = divmod(k, len(self.numels))
        k, t = divmod(k, len(DTYPES))
        return TensorType(DTYPES[t], (self.numels[d],), "" if k % 8 < 7 else "cuda:1")

    def value(self, k: int) -> str:
        """Choose a value; the last one made is the simplest."""
        return self.of(self.m.known()[::-1], k)

    def reads(self, ks: Sequence[int]) -> list[tuple[str, At]]:
        """Choose values to read."""
        ways = list(At)
        return [(self.value(k // len(ways)), self.of(ways, k)) for k in ks]

    # ---- rules

    @rule(reads=CHOICES, writes=CHOICES, scratch=st.booleans())
    def launch(self, reads: Sequence[int], writes: Sequence[int], scratch: bool) -> None:
        """A kernel makes values; perhaps with scratch memory."""
        types = [self.type(k) for k in writes]
        self.m.launch(self.reads(reads), [*types, types[0]] if scratch else types, int(scratch))

    @rule(of=CHOICE, at=CHOICE)
    def like(self, of: int, at: int) -> None:
        """A kernel makes a value of its operand's type: a chance to reuse the bytes in place."""
        read = self.value(of)
        self.m.launch([(read, self.of(list(At), at))], [self.m.types[read]])

    @rule(of=CHOICE, wide=st.booleans())
    def view(self, of: int, wide: bool) -> None:
        """Another name, shape and perhaps element type for a value, or for a view of one."""
        name = self.value(of)
        t = self.m.types[name]
        nbytes = t.nbytes
        if wide and isinstance(nbytes, int) and not t.dtype.is_float and nbytes % 2 == 0:
            self.m.view(name, TensorType(DType.I16, (nbytes // 2,), t.device))
        else:
            self.m.view(name, TensorType(t.dtype, (1, t.numel), t.device))

    @rule(on=CHOICE, reads=CHOICES)
    def mutate(self, on: int, reads: Sequence[int]) -> None:
        """A kernel adds to the first half of a value, perhaps through a view."""
        if own := self.m.owned():
            self.m.update(self.of(own[::-1], on), self.reads(reads))

    @rule(on=CHOICE, reads=CHOICES)
    def overwrite(self, on: int, reads: Sequence[int]) -> None:
        """A kernel writes all of a value again."""
        if own := self.m.owned():
            self.m.rewrite([self.of(own[::-1], on)], self.reads(reads))

    @rule(of=CHOICE, at=st.integers(0, 3), half=st.booleans())
    def part(self, of: int, at: int, half: bool) -> None:
        """A name for some of a value's bytes."""
        name = self.value(of)
        t = self.m.types[name]
        nbytes = t.nbytes
        if isinstance(nbytes, int) and nbytes > 256:
            start = 256 * (at % -(-nbytes // 256))
            room = (nbytes - start) // t.dtype.nbytes
            size = max(1, room // 2) if half else room
            self.m.view(name, TensorType(t.dtype, (size,), t.device), start)

    @rule(reads=CHOICES, writes=CHOICES, workspace=st.integers(0, 1), allocates=st.booleans())
    def extern(
        self, reads: Sequence[int], writes: Sequence[int], workspace: int, allocates: bool
    ) -> None:
        """A library routine makes values, perhaps with a workspace, perhaps in its own memory."""
        types = [self.type(k) for k in writes]
        types += [self.type(0)] * workspace
        self.m.extern([self.value(k) for k in reads], types, workspace, allocates)

    @rule(of=CHOICE)
    def copy(self, of: int) -> None:
        """A copy of a value."""
        self.m.copy(self.value(of))

    @rule(which=CHOICE)
    def free(self, which: int) -> None:
        """Nothing reads a value again, unless it is returned; its views may be read on."""
        names = self.m.block.names
        if len(self.m.known()) > 1 and names:
            names.remove(self.of(names[::-1], which))

    @precondition(lambda self: len(self.m.blocks) == 1)
    @rule(which=CHOICE)
    def return_value(self, which: int) -> None:
        """The program returns a value."""
        if len(self.returned) < 4:
            self.returned.append(self.value(which))

    @precondition(lambda self: len(self.m.blocks) <= MOST_DEPTH)
    @rule(of=CHOICE, results=CHOICES, one_in=st.integers(1, 3))
    def branch(self, of: int, results: Sequence[int], one_in: int) -> None:
        """Begin a branch that makes values on both sides."""
        self.m.begin_if(self.value(of), [self.type(k) for k in results], one_in)

    @precondition(lambda self: len(self.m.blocks) <= MOST_DEPTH)
    @rule(carried=CHOICES, rounds=st.integers(0, 3))
    def loop(self, carried: Sequence[int], rounds: int) -> None:
        """Begin a loop that carries values from round to round."""
        self.m.begin_while([self.value(k) for k in carried], rounds)

    @precondition(lambda self: len(self.m.blocks) <= MOST_DEPTH)
    @rule(rounds=st.integers(0, 3))
    def repeat(self, rounds: int) -> None:
        """Begin a loop of a known number of rounds."""
        self.m.begin_repeat(rounds)

    @precondition(lambda self: len(self.m.blocks) > 1)
    @rule()
    def end(self) -> None:
        """End a side of a branch, or a loop."""
        if self.m.block.kind == "then":
            self.m.begin_else()
        else:
            self.m.end()

    # ---- verdicts

    @rule(which=CHOICE)
    def plan(self, which: int) -> None:
        """Plan what is there, and judge the plan without running it."""
        self.judge(self.of(NAMES, which), run=False)

    @rule(which=CHOICE, seed=st.integers(0, 99))
    def run(self, which: int, seed: int) -> None:
        """Plan what is there and run it in poisoned memory."""
        self.judge(self.of(NAMES, which), run=True, seed=seed)

    def judge(self, name: str, *, run: bool, seed: int = 0) -> None:
        """Raise BrokenPlanError if a check has something against a plan of what is there."""
        m = self.m.clone()
        while len(m.blocks) > 1:
            m.end()
        bare = m.finish(self.returned or [m.known()[-1]])
        plan = self.make_plan(bare, name)
        laws = judge.laws(bare, plan)
        for env in judge.bindings(bare.dims, Random(seed)):
            found = laws + judge.static(plan, env)
            if run:
                found += judge.run(bare, plan, env, seed)
            if found:
                raise BrokenPlanError(name, found, bare)

    def teardown(self) -> None:
        """Judge the plan of every planner in the end."""
        if self.numels:
            for name in NAMES:
                self.judge(name, run=True)
