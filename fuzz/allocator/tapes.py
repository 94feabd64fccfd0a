"""Judge calls of modules that tapes repeat, with kernels that are interpreted.

A module's wrapper runs on the engine that programs built for the CPU use, one for each device.  Its
kernels are functions of this process, which read a launch record as machine code does, so that
nothing is compiled but what runs tapes.  Each call must give what the program without memory means,
whatever was called before; it keeps no input, and earlier results stay as they are.  In some calls
a launch tells that a check of its kernel failed: such a call, and no other, raises that.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime.devices import OWN, Devices
from didyma.codegen.runtime.didyma_runtime.host import (
    ENTRY,
    FAULT,
    FAULT_AT,
    Entry,
    Host,
    Kernels,
    Stage,
    library,
)
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.codegen.runtime.objects import shared_object
from didyma.fuzz.allocator import meaning
from didyma.fuzz.allocator.programs import Shape, repeated, wrapped
from didyma.fuzz.allocator.replays import text_of
from didyma.fuzz.allocator.wrappers import InterpretedKernels
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import KernelText, loops
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Bind, If, Program, While
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array, DType

CALLS = 7  # of a program
ALIASED = 0.1  # the chance that an input is another one of its type
BACKWARDS = 0.2  # the chance that an input does not lie as kernels read it
ODD = 0.1  # the chance that it begins where none of their buffers may
FAILING = 0.2  # the chance that one of the first launches of a call fails
FAILED = 5  # an assertion does not hold

Key: TypeAlias = tuple[tuple[int, ...], ...]  # the shapes of inputs


def shape(seed: int) -> Shape:
    """Draw what may occur in a program whose calls tapes repeat: all but external functions."""
    plain = repeated(seed) if seed % 2 else wrapped(seed)
    return replace(plain, routines=False, allocates=False, devices=True)


@cache
def _runner() -> Any:
    """Return a library that has no kernels, and runs tapes."""
    return library(shared_object(KernelText("", ())), "tapes")


@dataclass(slots=True)
class _Launches:
    """What becomes of launches: ``raised`` are the errors of those that were interpreted.

    The first ``sound`` launches from now on are, and the next one fails; none does if it is None.
    """

    raised: list[Exception] = field(default_factory=list[Exception])
    sound: int | None = None

    def fails(self) -> bool:
        """Return whether the next launch fails."""
        if self.sound is not None:
            self.sound -= 1
        return self.failed

    @property
    def failed(self) -> bool:
        """Whether a launch has failed."""
        return self.sound is not None and self.sound < 0


class _Interpreted(Kernels):
    """Kernels of a program that are interpreted."""

    def __init__(self, p: Program, table: Mapping[str, Any], launches: _Launches) -> None:
        self.table, self._source, self._library = table, "", _runner()
        self._text = InterpretedKernels({k.name: loops(k) for k in p.kernels})
        self._launches = launches
        self._entries = {name: Entry(k, ENTRY(self._entry(name, k))) for name, k in table.items()}
        self._stage = Stage(self._library)

    def _entry(self, name: str, kernel: Any) -> Callable[[int], None]:
        form = struct.Struct(f"{len(kernel.buffers)}Q{len(kernel.dims)}q")

        def run(record: int) -> None:
            if self._launches.fails():
                ctypes.memmove(record + FAULT_AT, FAULT.pack(FAILED, *(0,) * 7), FAULT.size)
                return
            (at,) = struct.unpack("<Q", ctypes.string_at(record, 8))
            words = form.unpack(ctypes.string_at(at, form.size))
            sizes = dict(zip(kernel.dims, words[len(kernel.buffers) :], strict=True))
            try:
                self._text.launch(name, _memory(words, kernel.sizes(sizes), kernel), sizes)
            except Exception as e:  # which no caller in C can pass on
                self._launches.raised.append(e)

        return run


def _memory(words: Sequence[int], sizes: Sequence[int], kernel: Any) -> list[Array]:
    """Return the bytes at the addresses that a kernel is given; ValueError for one that is odd."""
    found = list[Array]()
    for at, n, (_, dtype) in zip(words, sizes, kernel.buffers, strict=False):
        nbytes = n * DType(dtype).nbytes
        if nbytes and at % PORTABLE.access:
            raise ValueError(f"a buffer begins {at % PORTABLE.access} bytes too far")
        raw: Any = (ctypes.c_uint8 * nbytes).from_address(at) if nbytes else b""
        found.append(np.frombuffer(raw, np.uint8))
    return found


def judged(
    bare: Program, planned: Program, envs: Sequence[Mapping[str, int]], seed: int
) -> Iterator[str]:
    """Yield what is wrong with calls of a planned program that tapes repeat, if anything is.

    ``bare`` is the program without memory; ``envs`` are bindings of its symbols.
    """
    random, values = Random(seed), np.random.default_rng(seed)
    made: dict[str, Any] = dict(modules.module(wrapper.emit(planned, text_of(planned))))
    launches = _Launches()
    engine, kernels = _loaded(planned, made["KERNELS"], launches)
    weights: list[Any] = made["upload"](engine) if planned.constants else []
    tapes = made["tapes"]
    straight = not any(isinstance(x, If | While | Bind) for x in walk(planned.lines))
    kept = list[tuple[Array, bytes]]()
    taped, last = dict[Key, bool](), None  # whether the first call of some shapes can be repeated
    for number in range(CALLS):
        env = random.choice(envs)
        given, plain = _given(bare, env, random, values)
        want = meaning.run(bare, given, env)
        key = tuple(a.shape for a in given)
        refs = [weakref.ref(a) for a in given]
        launches.sound = random.choice((0, 0, 1, 2)) if random.random() < FAILING else None
        try:
            out = tapes.replay(given)
            if out is None:
                if plain and key == last and taped.get(key):
                    yield f"call {number + 1} is made line by line, like the first"
                last = key
                out = tapes.run(engine, given, kernels, weights, {})
                taped.setdefault(key, straight and plain)
        except Refused as e:
            if e.code == "kernel-fault" and launches.failed:
                continue
            raise
        if launches.raised:
            raise launches.raised[0]
        if launches.failed:
            yield f"call {number + 1} does not tell that a launch failed"
        if given:
            yield f"call {number + 1} leaves arguments in their list"
        for k, (a, b) in enumerate(zip(want, out, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype or a.tobytes() != b.tobytes():
                yield f"call {number + 1}, sizes {dict(env)}: result {k + 1} is {b}, and not {a}"
        if any(r() is not None for r in refs):
            yield f"call {number + 1} keeps an input"
        if any(a.tobytes() != data for a, data in kept):
            yield f"call {number + 1} writes what an earlier call returned"
        kept += [(a, a.tobytes()) for a in out]


def _loaded(p: Program, table: Mapping[str, Any], launches: _Launches) -> tuple[Any, Any]:
    """Return an engine for each device that values name, and the kernels there."""
    names = named(p)
    if not names:
        return Host(), _Interpreted(p, table, launches)
    devices = Devices({name: Host() for name in (OWN, *names)})
    return devices, devices.kernels([_Interpreted(p, table, launches) for _ in devices.engines])


def _given(
    p: Program, env: Mapping[str, int], random: Random, values: np.random.Generator
) -> tuple[list[Array], bool]:
    """Return inputs, and whether they are arrays of their own that lie as kernels read them."""
    found, plain = list[Array](), True
    for name in p.inputs:
        t = p.type[name]
        a = values.integers(0, 100, dims.values(t.shape, env)).astype(t.dtype.numpy)
        like = [b for b in found if b.shape == a.shape and b.dtype == a.dtype]
        if like and random.random() < ALIASED:
            found.append(random.choice(like))
            plain = False
            continue
        if a.size > 1 and random.random() < BACKWARDS:
            a = a[::-1]
            plain = False
        elif random.random() < ODD:
            a = _odd(a)
            plain = False
        found.append(a)
    return found, plain


def _odd(a: Array) -> Array:
    """Return an array's elements one element behind a place where a buffer of kernels may begin."""
    raw = np.empty(a.nbytes + 2 * PORTABLE.access, np.uint8)
    start = -raw.ctypes.data % PORTABLE.access + a.itemsize
    made = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    made[...] = a
    return made
