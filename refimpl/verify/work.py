"""Lines of programs that do work on values, and what each must obey; ``program`` lists the laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from didyma.refimpl.errors import counted
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.kernel import Kernel, loops
from didyma.refimpl.ir.lines import writes
from didyma.refimpl.ir.program import Call, Copy, Dispatch, Extern, Launch, Program
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.sharing import Sharing
from didyma.refimpl.verify.state import Region
from didyma.refimpl.verify.symbols import caller_symbols
from didyma.refimpl.verify.values import Values


@dataclass(frozen=True, slots=True)
class Work:
    """Verifies the launches, waits, copies, calls and the return of one program.

    ``kernels`` and ``functions`` are those that its lines may name.  ``shares`` remembers, by
    kernel, which of its parameters may share bytes.
    """

    values: Values
    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Program]
    shares: dict[str, Sharing] = field(default_factory=dict[str, Sharing])

    def dispatch(self, s: Dispatch) -> None:
        """Verify that each variant of a dispatch may do its work, from one state."""
        v, names = self.values, [name for name, _ in s.variants]
        if len({*names}) < max(2, len(names)):
            got = ", ".join(f"@{name}" for name in names)
            raise v.broken("P-dispatch", got, "two kernels or more, each once")
        before, made = v.state, {*v.made}
        for launch in s.launches:
            v.state, v.made = before.copy(), {*made}
            self.launch(launch)
            if {*(written := writes(launch, self.kernels))} != {*s.outputs}:
                got = f"@{launch.kernel} writes ({', '.join(f'%{w}' for w in written)})"
                want = ", ".join(f"%{o}" for o in s.outputs)
                raise v.broken("P-dispatch", got, f"({want}), as the line says")

    def launch(self, s: Launch) -> None:
        """Verify a launch: its arguments are those that the kernel declares."""
        v, k = self.values, self.kernels.get(s.kernel)
        if k is None:
            known = ", ".join(f"@{name}" for name in self.kernels)
            want = f"a kernel of the program: {known or 'there is none'}"
            raise v.broken("P-kernel", f"@{s.kernel}", want)
        if len(s.args) != len(k.params):
            got = counted(len(s.args), "argument")
            raise v.broken("P-args", got, f"{len(k.params)}, as @{k.name} has")
        if scalars := loops(k).scalars:
            got = f"@{k.name}, which takes {', '.join(x.name for x in scalars)} by value"
            raise v.broken("P-args", got, "a kernel of buffers and dims: a launch gives no numbers")
        self._streams(s.stream)
        self._dims(k.dims, k.name)
        written: list[str] = []
        read: list[str] = []
        for name, b in zip(s.args, k.params, strict=True):
            t = v.typed(name)
            memory = t.memory
            # a kernel may see its buffers under other shapes
            if memory.dtype is not b.dtype or (
                memory.shape != b.shape and memory.numel != dims.mul(*b.shape)
            ):
                want = f"{TensorType(b.dtype, b.shape)}, as {b.name} of @{k.name}"
                raise v.broken("P-args", f"%{name}: {t}", want)
            (written if b.name in k.outputs else read).append(name)
        v.together(s.args)
        v.read(read, s.stream)
        for output, source in s.inplace:
            self._inplace(s, k, output, source)
        dying = {source for _, source in s.inplace}
        others = [r for r in read if r not in dying]
        v.write(written, others, s.stream)
        self._wide((*others, *written))

    def _inplace(self, s: Launch, k: Kernel, output: str, source: str) -> None:
        """Let an output of a launch take over the bytes of an operand that dies there."""
        v = self.values
        params = {name: b.name for name, b in zip(s.args, k.params, strict=True)}
        out, src = params.get(output, ""), params.get(source, "")
        if out not in k.outputs or src in ("", *k.outputs) or s.args.count(source) > 1:
            got = f"%{output} over %{source}"
            raise v.broken("P-inplace", got, "an output over an operand, each given once")
        r = v.owner(source, "P-inplace", "an operand that owns its bytes")
        t = v.make(output)
        if not dims.equal(t.nbytes, v.types[source].nbytes):
            raise v.broken("P-inplace", f"%{output}: {t}", f"as many bytes as %{source}")
        for other in s.args:
            shown = v.state.values.get(other)
            if shown is not None and other != source and shown.owner == source:
                raise v.broken("P-alias", f"%{output} and %{other}", "no byte in common")
        if not self.shares.setdefault(k.name, Sharing(k)).may(out, src):
            want = (
                "a kernel in which each thread reads an element, and no other, before it writes it"
            )
            raise v.broken("P-inplace", f"{out} of @{k.name} over {src}", want)
        v.state.end(source, s)
        v.own(Region(output, r.storage, r.lo, r.hi))

    def _wide(self, names: Iterable[str]) -> None:
        """Check that values start where the widest access may."""
        for name in names:
            if (at := self.values.state.values[name].lo) != 0:
                self.values.aligned(f"%{name}", at, self.values.target.access)

    def _dims(self, wanted: Sequence[DimVar], by: str) -> None:
        """Check laws P-dims and P-unbound for the symbols that a kernel or function wants."""
        v = self.values
        for d in wanted:
            lo, hi = v.sizes.ranges.get(d.name, (-1, -1))
            if lo < d.lo or hi > d.hi:
                got = f"in [{lo}, {hi}]" if lo >= 0 else "not declared"
                want = f"within [{d.lo}, {d.hi}], as @{by} says"
                raise v.broken("P-dims", f"{d.name} {got}", want)
        v.bound(dims.symbol(d.name) for d in wanted)

    def _streams(self, *numbers: int) -> None:
        if min(numbers) < 0:
            raise self.values.broken("P-stream", str(min(numbers)), "streams counted from 0")

    def wait(self, stream: int, on: int) -> None:
        """Verify that one stream waits for another."""
        self._streams(stream, on)
        if stream == on:
            got = f"stream {stream} waits for itself"
            raise self.values.broken("P-stream", got, "two streams")
        assert self.values.streams is not None
        self.values.streams.wait(stream, on)

    def extern(self, s: Extern) -> None:
        """Verify the call of a library routine."""
        v = self.values
        v.read(s.inputs)
        extra = [name for name in s.allocates if name not in s.outputs]
        if extra:
            raise v.broken("P-allocates", f"%{extra[0]}", "an output of the routine")
        for name in s.allocates:
            v.allocate(name)
        v.together((*s.outputs, *s.inputs))
        v.write(s.outputs, s.inputs)

    def copy(self, s: Copy) -> None:
        """Verify a copy of one value's bytes to another."""
        v = self.values
        v.read((s.source,))
        v.write((s.value,), (s.source,))
        want, got = v.types[s.source], v.types[s.value]
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            raise v.broken("P-copy", str(got), f"{want}, as %{s.source}")

    def call(self, s: Call) -> None:
        """Verify a call of a function of the program."""
        v, f = self.values, self.functions.get(s.callee)
        if f is None:
            known = ", ".join(f"@{name}" for name in self.functions)
            raise v.broken(
                "P-callee", f"@{s.callee}", f"a function above: {known or 'there is none'}"
            )
        declared = f.type
        for names, values in ((f.inputs, s.inputs), (f.outputs, s.outputs)):
            got = [v.typed(name) for name in values]
            want = [declared[name] for name in names]
            if got != want:
                expected = ", ".join(map(str, want))
                types = ", ".join(map(str, got))
                raise v.broken("P-call-types", f"({types})", f"({expected}), as @{f.name} says")
        self._dims(caller_symbols(f), f.name)
        v.join()
        v.read(s.inputs)
        v.write(s.outputs, s.inputs)
        self._wide((*s.inputs, *s.outputs))
        v.join()

    def give_back(self, values: Sequence[str], outputs: Sequence[str], last: bool) -> None:
        """Verify the return of values; ``outputs`` are those that a function writes instead."""
        v = self.values
        if not last:
            raise v.broken("P-return", "a return before the end", "one return, at the end")
        if values and v.called:
            raise v.broken("P-outputs", f"%{values[0]}", "no value: it writes its outputs")
        v.join()
        v.read((*(v.strided.get(name, name) for name in values), *outputs))
        owners: dict[str, str] = {}
        for name in values:
            _, r = v.live(v.strided.get(name, name))
            why = "a constant's" if r.owner in v.constants else ""
            if name not in v.strided and owners.setdefault(r.owner, name) != name:
                why = f"returned as %{owners[r.owner]}"
            elif name not in v.strided and r.owner != name and not r.storage.ours:
                why = f"those of the input %{r.owner}"
            if why:
                want = "an input, a strided value, or a value that alone has its bytes"
                help = "copy it to a value of its own, or show the other by strides"
                raise v.broken("P-return", f"%{name}, whose bytes are {why}", want, help)
