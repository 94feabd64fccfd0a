"""The functions that a template calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from didyma.codegen.emit.intrinsics import NBYTES, c_type
from didyma.codegen.templates.partial import Fail, Partial
from didyma.codegen.templates.pieces import pieces
from didyma.codegen.templates.problem import Output, Problem, Run, Subgraph
from didyma.codegen.templates.results import Result, result
from didyma.codegen.templates.writer import Writer, size, words
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import TensorMap
from didyma.refimpl.ir.loop import Buffer, Expr

NAMES = (
    "def_kernel",
    "dtype",
    "size",
    "stride",
    "load",
    "load_run",
    "address",
    "offset",
    "described",
    "copy_piece",
    "modification",
    "store_output",
    "store_outputs",
    "store_line",
    "result",
)
WIDE = 8  # results that ``store_outputs`` stores together
ACCESS = 16  # bytes of the widest access, and of an asynchronous copy
Index: TypeAlias = str | Sequence[str]  # an index for each axis, or the flat one
S = TypeVar("S", Subgraph, Output)


@dataclass(slots=True)
class Hooks:
    """The hooks of one rendering of a template, whose line ``line`` tells.

    DidymaError ``bad-template`` for a call that does not suit the problem.
    """

    problem: Problem
    name: str  # of the kernel
    threads: int  # of a block
    fail: Fail
    line: Callable[[], int]
    workspace: Mapping[str, Buffer] = field(default_factory=lambda: MappingProxyType({}))
    cluster: int = 1
    maps: Mapping[str, TensorMap] = field(default_factory=lambda: MappingProxyType({}))
    _partial: Partial = field(init=False)
    _calls: Counter[str] = field(default_factory=Counter[str])
    _given: list[str] = field(default_factory=list[str])  # texts that calls were given
    _body: list[str] = field(default_factory=list[str])  # lines that hooks wrote
    _writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self._partial = Partial(self.fail)

    def table(self) -> Mapping[str, Callable[..., object]]:
        """Return the hooks by the names under which a template calls them."""
        return {name: getattr(self, name) for name in NAMES}

    def def_kernel(self, *operands: str) -> str:
        """Write the head of the kernel, which loads these operands."""
        self._once("def_kernel")
        for n, name in enumerate(operands):
            self._operand(name)
            if name in operands[:n]:
                raise self.fail(self.line(), f"{name} twice", "each operand once")
        if left := [name for name in self.problem.operands if name not in operands]:
            raise self.fail(self.line(), f"def_kernel without {', '.join(left)}", "every operand")
        return self._partial.hole("def_kernel", self.line(), self._head, last=True)

    def dtype(self, name: str) -> str:
        """Return the C type of the elements of an operand."""
        return c_type(self._operand(name).value.dtype)

    def size(self, name: str, axis: int) -> int | str:
        """Return the extent of an axis of an operand: a number, or C with symbols."""
        return size(self._axis(name, axis), self.problem.loop)

    def stride(self, name: str, axis: int) -> int | str | None:
        """Return the elements between neighbours along an axis of an operand, in memory.

        None where there is no such number.
        """
        self._axis(name, axis)
        found = self.problem.stride(name, axis)
        return None if found is None else size(found, self.problem.loop)

    def load(self, name: str, into: str, index: Index, mask: str = "") -> str:
        """Declare ``into`` as an element of an operand, or as 0 where the mask does not hold."""
        sub = self._operand(name)
        flat, given = self._indexed(sub, index)
        return self._value("load", name, flat, (into, mask, *given))

    def load_run(
        self, name: str, into: str, index: Sequence[str], lanes: int, mask: str = ""
    ) -> str:
        """Declare ``into`` as a vector of neighbours of an operand, of which one load takes all.

        They follow the index along the axis of ``Problem.loaded``, and are 0 where the mask does
        not hold.
        """
        sub, found = self._operand(name), self.problem.loaded(name, lanes)
        if found is None:
            want = f"an operand of which {lanes} are loaded together"
            raise self.fail(self.line(), f"load_run of {name}", want)
        _, given = self._indexed(sub, tuple(index))
        self._calls[name] += 1
        each = [
            [f"{i} + {n}" if n and axis == found.run.axis else i for axis, i in enumerate(given)]
            for n in range(lanes)
        ]
        at = self._place(sub, found.run, given)
        self._given += [*each[-1], into, mask]

        def fill() -> Sequence[str]:
            return self._wrote(self._writer.values_wide(found, at, into, each, mask))

        return self._partial.hole(f"load_run of {name}", self.line(), fill)

    def address(self, name: str, index: Sequence[str], nbytes: int = ACCESS) -> str:
        """Return the address of an element of an operand that is nothing but an array.

        An asynchronous copy takes it, of so many bytes from an index that is a multiple of those
        along the axis on which neighbours lie together; see ``Problem.run``.
        """
        sub = self._operand(name)
        run = self.problem.run(name, nbytes)
        if run is None:
            want = f"an operand that lies in runs of {nbytes} bytes"
            raise self.fail(self.line(), f"address of {name}", want)
        _, given = self._indexed(sub, tuple(index))
        self._calls[name] += 1
        at = self._place(sub, run, given)

        def fill() -> Sequence[str]:
            return self._wrote([f"&{self._writer.arrays[run.buffer]}[{self._writer.own(at)}]"])

        return self._partial.hole(f"address of {name}", self.line(), fill)

    def offset(self, name: str, batch: str) -> str:
        """Return how many elements of an array lie from the first batch of an operand to another.

        The operand lies in runs, as ``address`` has it, or is the one ``result``.
        """
        run: Run | None
        if name == "result":
            found = self._one()
            sub, run = found.place, found.run
        else:
            sub, run = self._operand(name), self.problem.run(name, ACCESS)
        if run is None:
            want = "an operand that lies in runs of 16 bytes"
            raise self.fail(self.line(), f"offset of {name}", want)
        rest = ["0"] * (len(sub.extents) - 1)
        there, here = (self._place(sub, run, [b, *rest]) for b in (batch, "0"))
        return f"({there}) - ({here})"

    def described(self, name: str) -> str:
        """Return the address of the tensor map of an operand, or of the one ``result``."""
        word = f"{name}_map"
        if word not in self.maps:
            raise self._unknown("map", word, self.maps)
        self._calls[name] += 1
        return f"&{word}"

    def copy_piece(self, name: str, to: str, index: Sequence[str], mask: str = "") -> str:
        """Start an asynchronous copy of a piece of an operand, of 16 bytes, to shared memory.

        Zeros take the place of a piece of a border, or where the mask does not hold.  The index is
        that of the first element; see ``pieces``.
        """
        sub, found = self._operand(name), pieces(self.problem, name, ACCESS)
        if found is None:
            raise self.fail(self.line(), f"copy of {name}", "an operand that lies in pieces")
        _, given = self._indexed(sub, tuple(index))
        self._calls[name] += 1
        self._given += [*given, to, mask]
        t = c_type(sub.value.dtype)

        def fill() -> Sequence[str]:
            w = self._writer
            at, inside = w.names.fresh("from"), w.names.fresh("inside")
            place = f"&{w.arrays[found.buffer]}[{inside} ? {at} : 0]"
            many = f"{inside} ? {ACCESS // NBYTES[t]} : 0"
            index = [f"(i32)({i})" for i in given] if found.is_small else given
            parts = ((found.offset, at), (found.inside, inside))
            lines = [line for sub, into in parts for line in w.value(sub, into, index, mask)]
            if found.is_small:  # divisions are then far cheaper
                lines = [re.sub(r"\bi64\b", "i32", line) for line in lines]
            return self._wrote([
                *lines,
                f"cp_async16_zfill_{t}({w.own(to)}, {place}, {many});",
            ])  # fmt: skip

        return self._partial.hole(f"copy of {name}", self.line(), fill)

    def modification(self, subgraph: str, into: str, **inputs: object) -> str:
        """Declare ``into`` as the value of a subgraph, whose inputs are given by their names."""
        bodies = self.problem.bodies
        if subgraph not in bodies:
            raise self._unknown("subgraph", subgraph, bodies)
        sub = bodies[subgraph]
        wanted = [v.name for v in sub.inputs]
        if sorted(wanted) != sorted(inputs):
            got = f"{subgraph} of {', '.join(inputs) or 'nothing'}"
            raise self.fail(self.line(), got, f"{subgraph} of {', '.join(wanted) or 'nothing'}")
        given = [str(inputs[name]) for name in wanted]
        return self._value("modification", subgraph, sub, (into, "", *given))

    def store_output(self, index: Index, *values: str, mask: str = "") -> str:
        """Store what follows from values at an index, if the mask holds."""
        return self._stores("store_output", self.problem.output, index, values, mask)

    def store_line(self, index: Index, *values: str, mask: str = "") -> str:
        """Store what follows from values of a row at its index, if the mask holds."""
        if self.problem.line is None:
            raise self.fail(self.line(), "store_line", "a problem with results of rows")
        return self._stores("store_line", self.problem.line, index, values, mask)

    def _stores(
        self, hook: str, out: Output, index: Index, values: Sequence[str], mask: str
    ) -> str:
        self._once(hook)
        flat, given = self._indexed(out, index)
        given = [*given, *map(str, values)]
        if len(given) != len(flat.inputs):
            want = ", ".join(v.name for v in out.inputs[len(out.extents) :])
            raise self.fail(self.line(), f"{len(values)} values to store", want or "none")
        self._given += [*given, str(mask)]

        def fill() -> Sequence[str]:
            return self._wrote(self._writer.stores(flat, given, str(mask)))

        return self._partial.hole(hook, self.line(), fill)

    def store_outputs(
        self, index: Sequence[str], *values: str, mask: str = "", lanes: int = WIDE
    ) -> str:
        """Store what follows from values at an index and its neighbours along the last axis.

        A value is the name of an array, with an element for each of the neighbours, of which there
        are as many ``lanes`` as ``Problem.stored`` finds together; the mask is that of the first.
        """
        self._once("store_output")
        out = self.problem.output
        _, given = self._indexed(out, tuple(index))
        stores = self.problem.stored(lanes)
        if stores is None:
            want = f"results of which {lanes} lie together"
            raise self.fail(self.line(), "store_outputs", want)
        *rest, last = given
        each = [
            [*rest, f"{last} + {n}" if n else last, *(f"{v}[{n}]" for v in values)]
            for n in range(lanes)
        ]
        self._given += [*each[-1], str(mask)]

        def fill() -> Sequence[str]:
            written = (self._writer.stores_wide(x, store, each, str(mask)) for x, store in stores)
            return self._wrote([line for lines in written for line in lines])

        return self._partial.hole("store_outputs", self.line(), fill)

    def result(self, into: str, index: Sequence[str], *values: str, mask: str = "") -> str:
        """Declare ``into`` as what ``store_output`` would store, or as 0 where there is no mask.

        It is a vector where there are several values: those of neighbours, of which the first has
        the index, a multiple of their number.  The text stores them itself, in boxes: the problem
        has one ``results.result``.
        """
        sub = self._one().value
        if len(values) == 1:
            return self._value("result", "store_output", sub, (into, mask, *index, *values))
        *rest, last = map(str, index)
        each = [[*rest, f"{last} + {n}" if n else last, v] for n, v in enumerate(values)]
        self._calls["store_output"] += 1
        self._given += [into, mask, *each[-1], *values]

        def fill() -> Sequence[str]:
            written = self._writer.results_wide(sub, self.problem.output, into, each, mask)
            return self._wrote(written)

        return self._partial.hole("result of store_output", self.line(), fill)

    def _one(self) -> Result:
        found = result(self.problem, ACCESS)
        if found is None:
            raise self.fail(self.line(), "result", "one result that lies in runs of 16 bytes")
        return found

    def finished(self, rendered: str) -> tuple[str, Writer]:
        """Return the text of the kernel, once the template is rendered, and what wrote into it.

        DidymaError ``bad-template`` for a hook that was never called.
        """
        for name, call in _wanted(self.problem):
            if not self._calls[name]:
                raise self.fail(0, f"no call of {call}", "one")
        self._writer = Writer.of(self.problem, words([rendered, *self._given]))
        text = self._writer.own(rendered)
        self._body.append(text)
        return self._partial.finished(text), self._writer

    # What the hooks have in common

    def _value(self, hook: str, name: str, sub: Subgraph, texts: Sequence[str]) -> str:
        into, mask, *given = map(str, texts)
        self._calls[name] += 1
        self._given += [into, mask, *given]

        def fill() -> Sequence[str]:
            return self._wrote(self._writer.value(sub, into, given, mask))

        return self._partial.hole(f"{hook} of {name}", self.line(), fill)

    def _head(self) -> Sequence[str]:
        text, more = "\n".join(self._body), self.workspace
        return self._writer.head(self.name, text, self.threads, more, self.cluster, self.maps)

    def _wrote(self, lines: Sequence[str]) -> Sequence[str]:
        self._body += lines
        return lines

    def _once(self, hook: str) -> None:
        self._calls[hook] += 1
        if self._calls[hook] > 1:
            raise self.fail(self.line(), f"{hook} twice", "one call")

    def _operand(self, name: str) -> Subgraph:
        if name not in self.problem.operands:
            raise self._unknown("operand", name, self.problem.operands)
        return self.problem.operands[name]

    def _place(self, sub: Subgraph, run: Run, given: Sequence[str]) -> str:
        """Return where in its array an operand that lies in runs has an element, as C."""
        own = {sub.inputs[0].name: f"({given[0]})"}
        steps = (
            *(size(e, self.problem.loop) for e in run.steps),
            size(run.start, self.problem.loop, own),
        )
        parts = [_times(i, by) for i, by in zip((*given, "1"), steps, strict=True) if by != 0]
        at = " + ".join(p for p in parts if p != "0") or "0"
        self._given.append(at)
        return at

    def _axis(self, name: str, axis: int) -> Expr:
        extents = self._operand(name).extents
        if not 0 <= axis < len(extents):
            want = f"0 to {len(extents) - 1}"
            raise self.fail(self.line(), f"axis {axis} of {name}", want)
        return extents[axis]

    def _unknown(self, what: str, name: str, known: Mapping[str, object]) -> DidymaError:
        want = f"one of {', '.join(known) or 'none: the problem has none'}"
        return self.fail(self.line(), f"the {what} {name}", want)

    def _indexed(self, sub: S, index: Index) -> tuple[S, list[str]]:
        """Return a subgraph that takes an index as it is given, and the index."""
        if isinstance(index, str):
            return sub.flat(), [index]
        if len(index) != len(sub.extents):
            got = f"an index of {len(index)} axes"
            raise self.fail(self.line(), got, f"{len(sub.extents)}, or a flat one")
        return sub, list(map(str, index))


def _times(index: str, by: int | str) -> str:
    """Return a product as C.

    >>> _times("i", 1), _times("i + 1", 8)
    ('i', '(i + 1) * 8')
    """
    plain = index if index.isalnum() else f"({index})"
    return index if by == 1 else str(by) if index == "1" else f"{plain} * {by}"


def _wanted(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield what a text calls, each with how it does so."""
    hooks = ("def_kernel", "store_output", *(["store_line"] if problem.line is not None else []))
    yield from ((hook, hook) for hook in hooks)
    yield from ((name, f"load of {name}") for name in problem.operands)
    yield from ((name, f"modification of {name}") for name in problem.bodies)
