"""The meaning of loaders in C++: their statements are run one by one, as the language defines them.

What ``didyma_cuda.h`` offers is what its comments say, on a machine of ``fuzz/cpp/machine.py``.
Values are numbers, strings, buffers, lists and bytes; pointers to sizes are the sizes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from didyma.fuzz.cpp import syntax as cpp
from didyma.fuzz.cpp.library import FUNCTIONS, OPERATORS, signed
from didyma.fuzz.cpp.machine import Allocation, Buffer, Fault, Launched, Machine, Refusal

_SIZES, _BUFFER, _BYTES = "didyma_sizes", "Buffer", "std::vector<char>"
_MOST = 1 << 20  # statements of a run: more are a loop that never ends
_MADE: Mapping[str, Callable[[], object]] = {
    _BUFFER: Buffer,
    _BYTES: bytearray,
    "std::vector<Buffer>": list,
    "std::map<std::string , std::string>": dict,
}


Place: TypeAlias = tuple[Callable[[], Any], Callable[[Any], None]]  # what reads it and writes to it


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place among bytes of the host."""

    data: bytearray
    at: int = 0

    def part(self, nbytes: int) -> memoryview:
        """Return some bytes from there on."""
        if not 0 <= nbytes <= len(self.data) - self.at:
            raise Fault(f"{nbytes} bytes of the host are used, of {len(self.data) - self.at}")
        return memoryview(self.data)[self.at : self.at + nbytes]


@dataclass(frozen=True, slots=True)
class _Out:
    path: str


class _Left(Exception):  # no error: it leaves a loop or a function
    def __init__(self, how: str, value: Any = None) -> None:
        super().__init__(how)
        self.how, self.value = how, value


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_table(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _item(of: Any, key: Any) -> Place:
    def read() -> Any:
        return of[key]

    def write(value: Any) -> None:
        of[key] = value

    return read, write


@dataclass(slots=True)
class Run:
    """Runs the functions of some texts on a machine."""

    units: Sequence[cpp.Unit]
    machine: Machine
    _left: int = _MOST
    _frames: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])

    def main(self, words: Sequence[str]) -> None:
        """Run a program whose command line has some words."""
        self._frames.append([{}])
        for d in (d for u in self.units for d in u.variables):
            self.declare(d)
        self.call("main", [len(words), [*words]])

    def call(self, name: str, args: Sequence[Any]) -> Any:
        """Return what a function returns."""
        (f,) = (u.functions[name] for u in self.units if name in u.functions)
        if len(f.params) != len(args):
            raise Fault(f"{name} is given {len(args)} arguments")
        scope = {
            p.name: dict(a) if p.type == _SIZES else a for p, a in zip(f.params, args, strict=True)
        }
        self._frames.append([scope])
        try:
            self.run(f.body)
        except _Left as left:
            return left.value
        finally:
            self._frames.pop()
        return None

    # ---- names

    def scope_of(self, name: str) -> dict[str, Any]:
        """Return the innermost scope that has a name."""
        every: list[dict[str, Any]] = [*reversed(self._frames[-1]), self._frames[0][0]]
        for scope in every:
            if name in scope:
                return scope
        raise Fault(f"{name} is not declared")

    def shown(self) -> Iterator[Allocation]:
        """Yield the allocations that variables show."""
        for value in (v for frame in self._frames for scope in frame for v in scope.values()):
            for b in value if _is_list(value) else (value,):
                if isinstance(b, Buffer) and b.owner is not None:
                    yield b.owner

    def settle(self) -> Machine:
        """Return the machine, once it has freed what no variable shows."""
        self.machine.free_all_but(self.shown())
        return self.machine

    # ---- statements

    def run(self, s: cpp.Statement) -> None:
        """Run a statement; what leaves it raises."""
        self._left -= 1
        if self._left < 0:
            raise Fault(f"it has not ended after {_MOST} statements")
        match s:
            case cpp.Block(body):
                self._frames[-1].append({})
                for x in body:
                    self.run(x)
                self._frames[-1].pop()
            case cpp.Several(body):
                for d in body:
                    self.declare(d)
            case cpp.Declare():
                self.declare(s)
            case cpp.Do(term):
                if term is not None:
                    self.value(term)
            case cpp.If(test, then, other):
                chosen = then if self.value(test) else other
                if chosen is not None:
                    self.run(chosen)
            case cpp.For(first, test, step, body):
                self.loop(first, test, step, body)
            case cpp.Switch(term, cases):
                self.switch(self.value(term), cases)
            case cpp.Leave("throw", term):
                assert term is not None
                raise self.value(term)
            case cpp.Leave(how, term):
                raise _Left(how, None if term is None else self.value(term))

    def switch(self, chosen: int, cases: Sequence[tuple[cpp.Term | None, cpp.Statement]]) -> None:
        """Run the statement of a number, or the default."""
        for number, statement in cases:
            if number is None or self.value(number) == chosen:
                self.run(statement)
                return

    def loop(
        self,
        first: cpp.Statement,
        test: cpp.Term | None,
        step: cpp.Term | None,
        body: cpp.Statement,
    ) -> None:
        """Run a loop until its test fails or something leaves it."""
        scopes = self._frames[-1]
        scopes.append({})
        self.run(first)
        depth = len(scopes)
        try:
            while test is None or self.value(test):
                self.run(body)
                if step is not None:
                    self.value(step)
        except _Left as left:
            if left.how != "break":
                raise
            del scopes[depth:]
        scopes.pop()

    def declare(self, d: cpp.Declare) -> None:
        """Make a variable."""
        self._frames[-1][-1][d.name] = self.made(d)

    def made(self, d: cpp.Declare) -> Any:
        """Return the first value of a variable."""
        if d.type == _SIZES:  # a value of its own, whose fields begin as zeros
            fields = {name: 0 for u in self.units for name in u.fields}
            for x in d.made_of or ():
                fields |= self.value(x)
            return fields
        if d.length is not None and d.made_of is None:
            return [None] * self.value(d.length)
        if d.made_of is None:
            made = _MADE.get(d.type)
            return self if d.type == "didyma::Driver" else made() if made else None
        args = [self.value(x) for x in d.made_of]
        if d.type == "didyma::Kernels":
            return self
        if d.type == _BYTES and isinstance(args[0], int):
            return bytearray(args[0])
        return args[0]

    # ---- terms

    def value(self, x: cpp.Term) -> Any:
        """Return the value of a term; what was not given one raises."""
        match x:
            case cpp.Number(value) | cpp.Text(value):
                return value
            case cpp.Row(terms):
                return [self.value(t) for t in terms]
            case cpp.Name() | cpp.Member() | cpp.At():
                found = self.place(x)[0]()
                if found is None:
                    raise Fault(f"{x} is read before it has a value")
                return found
            case cpp.Choice(test, then, other):
                return self.value(then if self.value(test) else other)
            case cpp.Prefix(op, term):
                return self.prefixed(op, term)
            case cpp.Infix(op, lhs, rhs):
                return self.infix(op, lhs, rhs)
            case cpp.Call(callee, args):
                return self.called(callee, args)

    def place(self, x: cpp.Term) -> Place:
        """Return what reads the place that a term names, and what writes to it."""
        match x:
            case cpp.Name("std::ios::binary"):
                return (lambda: 0), self._fixed
            case cpp.Name("std::string::npos"):
                return (lambda: -1), self._fixed
            case cpp.Name(name):
                return _item(self.scope_of(name), name)
            case cpp.Member(term, "at") if isinstance(b := self.value(term), Buffer):
                return (lambda: b.at), self._fixed
            case cpp.Member(term, "driver") if self.value(term) is self:
                return (lambda: self), self._fixed
            case cpp.Member(term, name):
                fields = self.value(term)
                if not _is_table(fields) or name not in fields:
                    raise Fault(f"no member {name}")
                return _item(fields, name)
            case cpp.At(term, index):
                row, at = self.value(term), self.value(index)
                if _is_list(row) and not 0 <= at < len(row):
                    raise Fault(f"element {at} of {len(row)}")
                return _item(row, at)
            case _:
                raise Fault(f"no place: {x}")

    def _fixed(self, value: Any) -> None:
        raise Fault(f"{value} is written to what may not change")

    def prefixed(self, op: str, term: cpp.Term) -> Any:
        """Return what an operator makes of a term."""
        match op:
            case "++":
                read, write = self.place(term)
                write(signed(read() + 1))
                return read()
            case "sizeof":
                return 8 if isinstance(self.value(term), int) else self._fixed("sizeof")
            case "!":
                return not self.value(term)
            case "-":
                return signed(-self.value(term))
            case "(void)":
                self.scope_of(term.name) if isinstance(term, cpp.Name) else self.value(term)
                return 0
            case _:  # the address of what is, or what an address shows
                return self.value(term)

    def infix(self, op: str, lhs: cpp.Term, rhs: cpp.Term) -> Any:
        """Return what an operator makes of two terms."""
        match op:
            case ",":
                self.value(lhs)
                return self.value(rhs)
            case "=":
                value = self.value(rhs)
                if value == []:  # empty braces
                    value = Buffer()
                self.place(lhs)[1](value)
                return value
            case "&&":
                return bool(self.value(lhs)) and bool(self.value(rhs))
            case "||":
                return bool(self.value(lhs)) or bool(self.value(rhs))
            case _:
                a, b = self.value(lhs), self.value(rhs)
                if isinstance(a, Pointer):
                    return Pointer(a.data, a.at + b)
                return a + b if isinstance(a, str) else OPERATORS[op](a, b)

    # ---- calls

    def called(self, callee: cpp.Term, args: Sequence[cpp.Term]) -> Any:
        """Return what a call returns."""
        match callee:
            case cpp.Name("std::move"):
                read, write = self.place(args[0])
                value = read()
                write(Buffer(None, value.at) if isinstance(value, Buffer) else None)
                return value
            case cpp.Name("reinterpret_cast"):
                value = self.value(args[0])
                return Pointer(bytearray(int(value).to_bytes(8, "little", signed=True)))
            case cpp.Name(name) if any(name in u.functions for u in self.units):
                return self.call(name, [self.value(a) for a in args])
            case cpp.Name(name) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(self.value, args))
            case cpp.Name("didyma::bytes_of"):
                return bytearray(self.machine.read(self.value(args[0])))
            case cpp.Name("didyma::checked"):
                path, digest = map(self.value, args)
                return self.checked(path, digest)
            case cpp.Name("std::ofstream"):
                return _Out(self.value(args[0]))
            case cpp.Name("d"):
                return tuple(self.value(a) for a in args)  # a kernel, and the bytes that it asks
            case cpp.Member(term, name, of):
                return self.method(self.value(term), name, of, [self.value(a) for a in args])
            case _:
                raise Fault(f"no function: {callee}")

    def checked(self, path: str, digest: str) -> bytearray:
        """Return the bytes of a file of a SHA-256."""
        data = self.machine.read(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise Refusal("hash-mismatch")
        return bytearray(data)

    def method(self, of: Any, name: str, kind: str, args: Sequence[Any]) -> Any:
        """Return what a member function of an object returns."""
        match of, name, args:
            case Run(), _, _:
                return getattr(self, f"driver_{name}")(*args, *([kind] if kind else []))
            case Buffer(owner, at), "view", [offset]:
                return Buffer(owner, at + offset)
            case Buffer(owner), "on", [offset]:
                if owner is None:
                    raise Fault("a place in no allocation")
                return Buffer(owner, owner.at + offset)
            case bytearray(), "data", []:
                return Pointer(of)
            case bytearray(), "size", []:
                return len(of)
            case _, "push_back", [value]:
                of.append(value)
                return None
            case dict(), "count", [key]:
                return int(key in of)
            case str(), "find", [text]:
                return of.find(text)
            case str(), "substr", [begin, *length]:
                return of[begin:][: length[0] if length else None]
            case _Out(path), "write", [data, nbytes]:
                self.machine.files[path] = bytes(data.part(nbytes))
                return None
            case _:
                raise Fault(f"no member function {name} of {type(of).__name__}")

    # ---- the driver and the kernels

    def driver_require(self, major: int, minor: int, exact: int) -> None:
        """Demand a device."""
        self.machine.required = (major, minor, bool(exact))

    def driver_allocate(self, nbytes: int) -> Buffer:
        """Return new bytes."""
        return self.settle().allocate(nbytes)

    def driver_upload(self, data: Pointer, nbytes: int) -> Buffer:
        """Return bytes of the host on the device."""
        made = self.settle().allocate(nbytes, counts=False)
        self.machine.part(made.at, nbytes)[:] = data.part(nbytes)
        return made

    def driver_read(self, b: Buffer, kind: str) -> int:
        """Return a number that a buffer holds."""
        dtype = np.dtype({"bool": "?", "int64_t": "<i8"}[kind])
        return int(np.frombuffer(self.settle().part(b.at, dtype.itemsize), dtype)[0])

    def driver_copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes on the device."""
        m = self.settle()
        m.step("copy")
        m.part(target, nbytes)[:] = bytes(m.part(source, nbytes))

    def driver_download(self, data: Pointer, source: int, nbytes: int) -> None:
        """Copy bytes to the host."""
        data.part(nbytes)[:] = self.settle().part(source, nbytes)

    def driver_launch(
        self,
        kernel: tuple[str, int],
        grid: list[int | None],
        block: list[int],
        shared: int,
        words: list[int],
        buffers: int = 0,
        maps: Sequence[list[int]] = (),
    ) -> None:
        """Run a kernel."""
        blocks = tuple(n for n in grid if n is not None)
        if len(blocks) < len(grid):
            raise Fault(f"{kernel[0]} is launched with {grid} blocks")
        if kernel[1] != shared:
            raise Fault(f"{kernel[0]} asks for {kernel[1]} bytes and is launched with {shared}")
        rows = tuple(tuple(row) for row in maps)
        name, shape = kernel[0], (blocks, tuple(block))
        self.settle().launch(Launched(name, *shape, shared, tuple(words), buffers, rows))
