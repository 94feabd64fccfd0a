"""Lines of programs that do work on values, and what each must obey; ``program`` lists the laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.limits import PORTABLE
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Call, Extern, Launch, Program
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.lines import LineVerifier
from didyma.refimpl.verify.memory import Region
from didyma.refimpl.verify.sharing import may_share
from didyma.refimpl.verify.symbols import given


class WorkVerifier(LineVerifier):
    """Launches, calls, waits and the return."""

    def __init__(self, p: Program, functions: Mapping[str, Program] | None = None) -> None:
        super().__init__(p, functions)
        self._shares: dict[tuple[str, str, str], bool] = {}

    def launch(self, s: Launch) -> None:
        """A launch: arguments as the kernel declares them, and what it does in place."""
        k = self.kernels.get(s.kernel)
        if k is None:
            known = ", ".join(f"@{name}" for name in self.kernels)
            raise self.broken("P-kernel", f"@{s.kernel}", f"one of: {known or 'none'}")
        if len(s.args) != len(k.params):
            raise self.broken(
                "P-args", f"{len(s.args)} arguments", f"{len(k.params)}, as @{k.name} has"
            )
        self._streams(s.stream)
        self._known(k.dims, k.name)
        written: list[str] = []
        read: list[str] = []
        for name, b in zip(s.args, k.params, strict=True):
            t = self.typed(name)
            flat, held = TensorType(b.dtype, b.shape), t.memory
            # a kernel may see its buffers under other shapes
            if held.dtype is not b.dtype or (held.shape != b.shape and held.numel != flat.numel):
                want = f"{flat}, as {b.name} of @{k.name}"
                raise self.broken("P-args", f"%{name}: {t}", want)
            (written if b.name in k.outputs else read).append(name)
        self.read(read, s.stream)
        taken = dict(s.inplace)
        for output, source in s.inplace:
            self._inplace(s, k, output, source)
        kept = [r for r in read if r not in taken.values()]
        self.write(written, kept, s.stream)
        self._wide((*kept, *written))

    def _wide(self, names: Iterable[str]) -> None:
        for name in names:
            if (at := self.state.values[name].lo) != 0:
                self._aligned(f"%{name}", at, PORTABLE.access)

    def _known(self, wanted: Sequence[DimVar], by: str) -> None:
        """Laws P-dims and P-unbound."""
        for v in wanted:
            lo, hi = self.sizes.ranges.get(v.name, (-1, -1))
            if lo < v.lo or hi > v.hi:
                got = f"[{lo}, {hi}]" if lo >= 0 else "not declared"
                want = f"within [{v.lo}, {v.hi}], as @{by} says"
                raise self.broken("P-dims", f"{v.name} {got}", want)
        self.bound(dims.symbol(v.name) for v in wanted)

    def _streams(self, *numbers: int) -> None:
        if min(numbers) < 0:
            raise self.broken("P-stream", str(min(numbers)), "streams counted from 0")

    def _inplace(self, s: Launch, k: PrimFunc, output: str, source: str) -> None:
        places = {name: b.name for name, b in zip(s.args, k.params, strict=True)}
        out, src = places.get(output, ""), places.get(source, "")
        if out not in k.outputs or src in ("", *k.outputs) or s.args.count(source) > 1:
            got = f"%{output} over %{source}"
            raise self.broken("P-inplace", got, "an output over an operand, each given once")
        r = self.owner(source, "P-inplace", "an operand that owns its bytes")
        t = self.make(output)
        if not dims.equal(t.nbytes, self.types[source].nbytes):
            raise self.broken("P-inplace", f"%{output}: {t}", f"as many bytes as %{source}")
        for other in s.args:
            v = self.state.values.get(other)
            if v is not None and other != source and v.owner == source:
                raise self.broken("P-alias", f"%{output} and %{other}", "bytes apart")
        key = (k.name, out, src)
        if key not in self._shares:
            self._shares[key] = may_share(k, out, src)
        if not self._shares[key]:
            raise self.broken(
                "P-inplace",
                f"{out} of @{k.name} over {src}",
                "a kernel in which each thread reads an element, and no other, before it writes it",
            )
        self.state.end(source, s)
        self.state.own(Region(output, r.storage, r.lo, r.hi), self.numbers.next())

    def wait(self, stream: int, on: int) -> None:
        """A wait of a stream for another."""
        self._streams(stream, on)
        if stream == on:
            raise self.broken("P-stream", f"stream {stream} waits for itself", "two streams")
        assert self.streams is not None
        self.streams.wait(stream, on)

    def extern(self, s: Extern) -> None:
        """A library call."""
        self.read(s.inputs)
        strange = [v for v in s.allocates if v not in s.outputs]
        if strange:
            raise self.broken("P-allocates", f"%{strange[0]}", "an output of the routine")
        for v in s.allocates:
            self.own(v, self.make(v).nbytes)
        self.write(s.outputs, s.inputs)

    def call(self, s: Call) -> None:
        """A call of a function of the program."""
        f = self.functions.get(s.callee)
        if f is None:
            known = ", ".join(f"@{name}" for name in self.functions)
            raise self.broken("P-callee", f"@{s.callee}", f"a function above: {known or 'none'}")
        for wanted, values in ((f.inputs, s.inputs), (f.outputs, s.outputs)):
            types, found = f.type, [self.typed(v) for v in values]
            want = [types[v] for v in wanted]
            if found != want:
                expected = ", ".join(map(str, want))
                got = ", ".join(map(str, found))
                raise self.broken("P-call-types", f"({got})", f"({expected}), as @{f.name} says")
        self._known(given(f), f.name)
        if self.streams is not None:
            self.streams.join()
        self.read(s.inputs)
        self.write(s.outputs, s.inputs)
        self._wide((*s.inputs, *s.outputs))
        if self.streams is not None:
            self.streams.join()

    def give_back(self, values: Sequence[str], last: bool) -> None:
        """The return."""
        if not last:
            raise self.broken("P-return", "a return before the end", "one return, at the end")
        if values and self.called:
            raise self.broken("P-outputs", f"%{values[0]}", "no value: it writes its outputs")
        if self.streams is not None:
            self.streams.join()
        self.read((*values, *self.p.outputs))
        owners: set[str] = set()
        for name in values:
            _, r = self.live(name)
            if not r.storage.ours or r.owner in owners:
                why = "returned twice" if r.storage.ours else "the caller's"
                want = "values that own their bytes, each once"
                help = "copy it to a value of its own"
                raise self.broken("P-return", f"%{name}, whose bytes are {why}", want, help)
            owners.add(r.owner)
