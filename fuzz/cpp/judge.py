"""Judge the loaders in C++ of programs: by their results, what they launch and take, and refuse.

Their kernels are run by the loop interpreter, so no compiler, driver or GPU is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.cpp_program import Cpp
from didyma.codegen.emit.names import sanitise
from didyma.codegen.runtime.geometry import evaluate
from didyma.fuzz.cpp import syntax
from didyma.fuzz.cpp.machine import Fault, Launched, Machine, Refusal
from didyma.fuzz.cpp.meaning import Run
from didyma.oracle import in_place
from didyma.oracle.compare import bitwise
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import ClaimedKernel, KernelText, Signature, loops
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Extern, Program, Strided
from didyma.refimpl.ir.types import Array, TensorType, from_memory, to_memory

CODE = b"machine code"
# Architectures that code may be for, each with what a loader must demand: major, minor, exactly.
CAPABILITIES: Mapping[str, tuple[int, int, bool]] = MappingProxyType(
    {"sm_90a": (9, 0, True), "sm_86": (8, 6, False), "sm_100": (10, 0, False)}
)
_FOLDER, _KERNELS = "folder/", "folder/kernels.cubin"


def has_loader(p: Program, text: KernelText) -> bool:
    """Return whether a loader is written for a program whose kernels can be interpreted.

    None with strides is judged, whose rows the caller lays out.
    """
    every = [line for q in (p, *p.functions) for line in walk(q.lines)]
    return not (
        named(p)
        or any(t.strides is not None for _, t in p.types)
        or any(isinstance(line, (Extern, Strided)) for line in every)
        or any(s.scalars for s in text.kernels)
        or any(isinstance(k, ClaimedKernel) for k in p.kernels)
    )


def written(
    p: Program, text: KernelText, architecture: str = "sm_90a", buckets: Buckets | None = None
) -> Cpp:
    """Return what writes the header and the loader of a program."""
    name, digest, offsets = wrapper.weights_table(p)
    code = hashlib.sha256(CODE).hexdigest()
    return Cpp(p, text, architecture, code, name, digest, offsets, buckets)


Sizes: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a loader is called with: words, and files by their paths."""

    words: Sequence[str]
    files: Mapping[str, bytes]

    def with_file(self, path: str, data: bytes) -> Arguments:
        """Return the same with another file."""
        return replace(self, files={**self.files, path: data})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call must give and run, and the bytes that it may take beside the caller's.

    ``steps`` are its kernels and copies in order, where they are known.
    """

    results: Sequence[Array]
    most: int
    steps: Sequence[str] | None = None

    @classmethod
    def like(cls, results: Sequence[Array], use: MemoryUse) -> Wanted:
        """Return what a run gave, and what it used."""
        return cls(results, use.most, [name for name, _ in use.steps])


@dataclass(frozen=True, slots=True)
class Loader:
    """The loader of a program in C++, and the header, read.

    Its kernels write nothing unless it ``interprets`` them.
    """

    program: Program
    text: KernelText
    buckets: Buckets | None = None
    interprets: bool = True
    architecture: str = "sm_90a"
    units: tuple[syntax.Unit, syntax.Unit] = field(init=False)

    def __post_init__(self) -> None:
        cpp = written(self.program, self.text, self.architecture, self.buckets)
        units = syntax.parse(cpp.header()), syntax.parse(cpp.loader())
        object.__setattr__(self, "units", units)

    def arguments(self, inputs: Sequence[Array], sizes: Sizes) -> Arguments:
        """Return what the loader is called with, and the files of its folder."""
        p = self.program
        files = {f"{_FOLDER}{wrapper.weights_file(p)}": wrapper.weights(p)}
        if self.text.kernels:
            files[_KERNELS] = CODE
        words = [f"{name}={size}" for name, size in sizes.items()]
        for v, a in zip(p.inputs, inputs, strict=False):  # what buckets are told is no argument
            files[f"{sanitise(v)}.in"] = _bytes(a)
            words.append(f"{sanitise(v)}={sanitise(v)}.in")
        return Arguments(words, files)

    def run(self, given: Arguments, steps: Sequence[str] | None = None) -> Machine:
        """Run the loader; return the machine that it ran on, whose files have the results.

        ``steps`` name kernels as the program does.  Fault, Refusal, and what kernels raise.
        """
        if steps is not None:
            rows = zip(self.program.kernels, self.text.kernels, strict=True)
            called = {k.name: s.name for k, s in rows}
            steps = [called.get(step, step) for step in steps]
        counts = {s.name: len(s.buffers) for s in self.text.kernels}
        machine = Machine(self._launch, counts, dict(given.files), steps)
        Run(self.units, machine).main(["program", "folder", *given.words])
        if steps is not None and machine.done < len(steps):
            raise Fault(f"it ends after {machine.done} of {len(steps)} steps")
        machine.free_all_but(())
        return machine

    def _launch(self, x: Launched, memory: Sequence[memoryview]) -> None:
        """Run a kernel, after its launch was held against its signature."""
        at = [s.name for s in self.text.kernels].index(x.kernel)
        s, k = self.text.kernels[at], loops(self.program.kernels[at])
        if len(x.words) != len(s.buffers) + len(s.dims):
            raise Fault(f"{x.kernel} is given {len(x.words)} words")
        env = dict(zip(s.dims, x.words[len(s.buffers) :], strict=True))
        want = tuple(evaluate(e, env) for e in s.grid), s.block, _described(s, env)
        if (x.grid, x.block, x.maps) != want:
            raise Fault(f"{x.kernel} is launched as {(x.grid, x.block, x.maps)}, not {want}")
        arrays = dict[str, Array]()
        for b, bytes_of in zip(k.params, memory, strict=True):
            shape = dims.values(b.shape, env)
            nbytes = int(np.prod(shape, dtype=np.int64)) * b.dtype.nbytes
            if nbytes > len(bytes_of):
                raise Fault(f"{x.kernel} is given {len(bytes_of)} bytes for {b.name}, of {nbytes}")
            raw = np.frombuffer(bytes_of[:nbytes], np.uint8)
            arrays[b.name] = raw.view(b.dtype.numpy).reshape(shape)
        if self.interprets:
            in_place.launch(k, arrays, env)


def judged(loader: Loader, inputs: Sequence[Array], sizes: Sizes, want: Wanted) -> Iterator[str]:
    """Yield what is wrong with a call, if anything is, and with what it refuses."""
    try:
        machine = loader.run(loader.arguments(inputs, sizes), want.steps)
    except (Fault, Refusal) as e:
        yield f"{type(e).__name__}: {e}"
        return
    p = loader.program
    for i, (v, a) in enumerate(zip(p.results, want.results, strict=True)):
        data = machine.files.get(f"{i}-{sanitise(v)}.bin", b"")
        if len(data) != len(_bytes(a)):
            yield f"{v} has {len(data)} bytes, not {len(_bytes(a))}"
        elif loader.interprets:
            raw = np.frombuffer(data, np.uint8).copy()
            c = bitwise(v, a, from_memory(raw, p.type[v].dtype, a.shape))
            yield from () if c.agree else (c.message,)
    if machine.most > want.most:
        yield f"{machine.most} bytes are allocated at once, and {want.most} by the wrapper"
    if machine.required != CAPABILITIES[loader.architecture]:
        yield f"it demands {machine.required} for {loader.architecture}"
    yield from _refusals(loader, inputs, sizes)


def _refusals(loader: Loader, inputs: Sequence[Array], sizes: Sizes) -> Iterator[str]:
    """Yield the calls that a loader should refuse and does not, or by another code."""
    given = loader.arguments(inputs, sizes)
    for code, wrong in _wrong(loader, given, sizes):
        got = "nothing"
        try:
            loader.run(wrong)
        except (Fault, Refusal) as e:
            got = str(e)
        if got != code:
            yield f"it tells {got} of {wrong.words}, not {code}"
            return


def _wrong(loader: Loader, given: Arguments, sizes: Sizes) -> Iterator[tuple[str, Arguments]]:
    """Yield calls in which one thing is wrong, with the code of the error that says so."""
    p = loader.program
    ranges, told = {d.name: d for d in p.dims}, {s for v in p.inputs for s in _symbols(p.type[v])}
    for name in sorted(told & sizes.keys()):
        others = [w for w in given.words if not w.startswith(f"{name}=")]
        yield "unbound-dim", replace(given, words=others)
        for size in (ranges[name].lo - 1, ranges[name].hi + 1):
            yield "dim-out-of-range", replace(given, words=[*others, f"{name}={size}"])
    for name, data in given.files.items():
        if name.endswith(".in"):
            yield "dim-mismatch", given.with_file(name, data + b"0")
        elif name == _KERNELS or p.constants:
            yield "hash-mismatch", given.with_file(name, data + b"0")
    yield "bad-option", replace(given, words=["word", *given.words])


def _symbols(t: TensorType) -> Iterator[str]:
    return (name for d in t.shape for name in dims.free(d))


def _described(s: Signature, env: Sizes) -> tuple[tuple[int, ...], ...]:
    return tuple(dims.values(row, env) for row in s.described)


def _bytes(a: Array) -> bytes:
    return np.ascontiguousarray(to_memory(a)).tobytes()
