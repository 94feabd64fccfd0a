"""The laws of programs, and those of ``sizes``; kernels obey ``loop``'s.

| law | says |
|---|---|
| P-kernel-twice | kernels have names of their own |
| P-name-twice | a value has one type; inputs and constants are each listed once |
| P-untyped | every value has a type |
| P-constant | a constant has the type and as many bytes as its data |
| P-undefined | a value is used after the line that makes it |
| P-made-twice | a value is made once; inputs and constants never |
| P-gone | a value is not used after its bytes are freed or another's |
| P-free | what is freed owns its bytes: no input, constant or view, and not yet freed |
| P-over | the bytes taken over are those of a value that owns them |
| P-reuse | a reused allocation keeps its type |
| P-fits | what is placed ends within the allocation, proven for all sizes in range |
| P-view | a view has as many bytes as its value, by equal sizes or an assertion above |
| P-kernel | a launch names a kernel of the program |
| P-args | arguments have the number, dtypes and element counts of the kernel's parameters |
| P-dims | a kernel's dims are the program's, of no wider range than the kernel's |
| P-written | inputs, constants and views of them are not written |
| P-alias | what a launch writes shares no bytes with its other arguments |
| P-unwritten | what is read or returned has been written |
| P-copy | a copy has its source's type |
| P-return | the last line, and no other, is a return, of values that own their bytes, each once |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from refimpl.errors import DidymaError
from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from refimpl.ir.text import show_instruction
from refimpl.ir.types import TensorType
from refimpl.verify import loop
from refimpl.verify.sizes import Sizes


def verify(p: Program, kernels: bool = True) -> None:
    """Raise DidymaError at the first broken law; ``kernels`` says whether to verify those too."""
    _Verifier(p).program(kernels)


@dataclass(slots=True)
class _Bytes:
    """Some bytes: who has them, how many they are, whether they may and have been written."""

    owner: str
    nbytes: Dim
    ours: bool
    written: bool
    gone: Line | None = None  # what took them


class _Verifier:
    def __init__(self, p: Program) -> None:
        self.p = p
        self.at = f"@{p.name}"
        self.sizes = Sizes(p.dims, self.at)
        self.types: dict[str, TensorType] = {}
        self.kernels: dict[str, PrimFunc] = {}
        self.bytes: dict[str, _Bytes] = {}
        self.equal: set[tuple[Dim, Dim]] = set()

    def broken(self, law: str, got: str, want: str, help: str = "") -> DidymaError:
        return DidymaError(law, self.at, got=got, want=want, help=help)

    def program(self, kernels: bool) -> None:
        for name, t in self.p.types:
            if name in self.types:
                raise self.broken("P-name-twice", f"%{name} again", "one type for a value")
            self.sizes.shape(t.shape, t.dtype, f"{self.at}, %{name}")
            self.types[name] = t
        for k in self.p.kernels:
            if k.name in self.kernels:
                raise self.broken("P-kernel-twice", f"@{k.name} again", "names of their own")
            if kernels:
                loop.verify(k)
            self._dims(k)
            self.kernels[k.name] = k
        for name in self.p.inputs:
            self._given(name)
        for name, tensor in self.p.constants:
            t = self._given(name)
            if t.dtype is not tensor.dtype or t.shape != tensor.shape:
                raise self.broken("P-constant", f"%{name}: {t}", f"{tensor.type}, as its data")
            if tensor.type.nbytes != len(tensor.data):
                got = f"%{name}: {len(tensor.data)} bytes"
                raise self.broken("P-constant", got, f"{tensor.type.nbytes} bytes for {t}")
        self._lines()

    def _lines(self) -> None:
        lines = self.p.lines
        if not lines or not isinstance(lines[-1], Return):
            got = show_instruction(lines[-1]) if lines else "no line"
            raise self.broken("P-return", f"{got} at the end", "a return at the end")
        for i, s in enumerate(lines):
            # the line's text is made when a law is broken
            try:
                self._line(s, i == len(lines) - 1)
            except DidymaError as e:
                where = f"@{self.p.name}, line {i + 1}: {show_instruction(s)}"
                raise DidymaError(e.code, where, got=e.got, want=e.want, help=e.help) from None

    def _dims(self, k: PrimFunc) -> None:
        for v in k.dims:
            lo, hi = self.sizes.ranges.get(v.name, (-1, -1))
            if lo < v.lo or hi > v.hi:
                got = f"[{lo}, {hi}]" if lo >= 0 else "not declared"
                raise self.broken(
                    "P-dims", f"{v.name} {got}", f"within [{v.lo}, {v.hi}], as @{k.name} says"
                )

    def _type(self, name: str) -> TensorType:
        t = self.types.get(name)
        if t is None:
            raise self.broken("P-untyped", f"%{name}", "a value listed under types")
        return t

    def _given(self, name: str) -> TensorType:
        t = self._type(name)
        if name in self.bytes:
            raise self.broken("P-name-twice", f"%{name} again", "inputs and constants listed once")
        self.bytes[name] = _Bytes(name, t.nbytes, ours=False, written=True)
        return t

    # ---- values

    def _make(self, name: str) -> TensorType:
        t = self._type(name)
        if name in self.bytes:
            raise self.broken("P-made-twice", f"%{name} again", "a value that is not there yet")
        return t

    def _live(self, name: str) -> _Bytes:
        self._type(name)
        b = self.bytes.get(name)
        if b is None:
            raise self.broken("P-undefined", f"%{name}", "a value made on an earlier line")
        if b.gone:
            raise self.broken(
                "P-gone", f"%{name}, gone with `{show_instruction(b.gone)}`", "a live value"
            )
        return b

    def _read(self, names: Iterable[str]) -> None:
        for name in names:
            if not self._live(name).written:
                raise self.broken("P-unwritten", f"%{name}", "a value written on an earlier line")

    def _write(self, names: Iterable[str], others: Iterable[str]) -> None:
        shared = [(self._live(o), o) for o in others]
        for name in names:
            b = self._live(name)
            if not b.ours:
                raise self.broken(
                    "P-written", f"%{name}, the caller's bytes", "a value of the program's own"
                )
            for other, o in shared:
                if other is b:
                    raise self.broken("P-alias", f"%{name} and %{o}", "bytes apart")
            b.written = True
            shared.append((b, name))

    def _take(self, s: Line, name: str, over: str) -> tuple[TensorType, _Bytes]:
        t = self._make(name)
        b = self._live(over)
        if not b.ours or b.owner != over:
            raise self.broken("P-over", f"%{over}, which owns no bytes", "a value that owns bytes")
        b.gone = s
        self.bytes[name] = _Bytes(name, b.nbytes, ours=True, written=False)
        return t, b

    # ---- lines

    def _line(self, s: Line, last: bool) -> None:
        match s:
            case Allocate(value):
                t = self._make(value)
                self.bytes[value] = _Bytes(value, t.nbytes, ours=True, written=False)
            case Free(value):
                b = self._live(value) if value in self.bytes else None
                if b is None or not b.ours or b.owner != value:
                    raise self.broken("P-free", f"%{value}", "a live value that owns its bytes")
                b.gone = s
            case Reuse(value, over):
                t, _ = self._take(s, value, over)
                if t != self.types[over]:
                    raise self.broken("P-reuse", str(t), f"{self.types[over]}, as %{over}")
            case PlacementAllocate(value, over, offset):
                self._place(s, value, over, offset)
            case View(value, of):
                self._view(value, of)
            case Launch():
                self._launch(s)
            case Extern(_, outputs, inputs):
                self._read(inputs)
                self._write(outputs, inputs)
            case Assert(lhs, rhs):
                self.sizes.declared((lhs, rhs), self.at)
                self.equal |= {(lhs, rhs), (rhs, lhs)}
            case Copy(value, source):
                self._read((source,))
                self._write((value,), (source,))
                if self.types[value] != self.types[source]:
                    got, want = str(self.types[value]), str(self.types[source])
                    raise self.broken("P-copy", got, f"{want}, as %{source}")
            case Return(values):
                self._return(values, last)
            case _:
                assert_never(s)

    def _place(self, s: Line, value: str, over: str, offset: Dim) -> None:
        self.sizes.declared(offset, self.at)
        t, b = self._take(s, value, over)
        end = dims.add(offset, t.nbytes)
        if not self.sizes.at_least(offset, 0) or not self.sizes.at_least(b.nbytes, end):
            got = f"bytes {dims.text(offset)} to {dims.text(end)}"
            raise self.broken("P-fits", got, f"within 0 to {dims.text(b.nbytes)}")

    def _view(self, value: str, of: str) -> None:
        t = self._make(value)
        b = self._live(of)
        source = self.types[of]
        # bytes are equal where the element counts are and the dtype is kept
        asserted = (t.numel, source.numel) in self.equal and t.dtype is source.dtype
        if not dims.equal(t.nbytes, source.nbytes) and not asserted:
            got, want = dims.text(t.nbytes), dims.text(source.nbytes)
            raise self.broken("P-view", f"{got} bytes", f"{want} bytes, as %{of}")
        self.bytes[value] = b

    def _launch(self, s: Launch) -> None:
        k = self.kernels.get(s.kernel)
        if k is None:
            known = ", ".join(f"@{name}" for name in self.kernels)
            raise self.broken("P-kernel", f"@{s.kernel}", f"one of: {known or 'none'}")
        if len(s.args) != len(k.params):
            raise self.broken(
                "P-args", f"{len(s.args)} arguments", f"{len(k.params)}, as @{k.name} has"
            )
        written: list[str] = []
        read: list[str] = []
        for name, b in zip(s.args, k.params, strict=True):
            t = self._type(name)
            flat = TensorType(b.dtype, b.shape)  # a kernel may see its buffers under other shapes
            if t.dtype is not b.dtype or (t.shape != b.shape and t.numel != flat.numel):
                want = f"{flat}, as {b.name} of @{k.name}"
                raise self.broken("P-args", f"%{name}: {t}", want)
            (written if b.name in k.outputs else read).append(name)
        self._read(read)
        self._write(written, read)

    def _return(self, values: tuple[str, ...], last: bool) -> None:
        if not last:
            raise self.broken("P-return", "a return before the end", "one return, at the end")
        self._read(values)
        owners: set[str] = set()
        for name in values:
            b = self.bytes[name]
            if not b.ours or b.owner in owners:
                why = "returned twice" if b.ours else "the caller's"
                want = "values that own their bytes, each once"
                help = "copy it to a value of its own"
                raise self.broken("P-return", f"%{name}, whose bytes are {why}", want, help)
            owners.add(b.owner)
