"""``didyma sanitize``: a CUDA kernel's faults of memory and synchronisation, without a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx import maps, sources
from didyma.codegen.runtime.ptx import sanitize as engine
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.text import split
from didyma.commands import exits, guess, host_code, vary
from didyma.commands.arrays import array_of
from didyma.commands.hints import Extents
from didyma.commands.second import Second, second
from didyma.files import require_folders
from didyma.judging import layouts
from didyma.judging.heads import source_name
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType
from didyma.show import sanitize as show

_ARRAY = re.compile(
    r"(?:(out|zero):)?(\w+)\[([\d,\s]*)\](?::(-?\d+)\.\.(-?\d+))?"
    r"(?::strides=\(([-\d,\s]*)\)(?::offset=(\d+))?)?$"
)
_SCALAR = re.compile(r"(\w+):(-?[\w.+-]+)$")
_WHOLE = re.compile(r"[iu]\d+:(\d+)$")
_FILE = re.compile(r"(?:(out):)?(.+\.npy)$")
_STRUCT = re.compile(r"\{(.*)\}$", re.S)
_WANT = (
    "[NAME=]f32[SIZE,…], NAME=out:f32[SIZE,…], NAME=f32[SIZE,SIZE]:strides=(STRIDE,STRIDE), "
    "NAME=i32:VALUE, NAME=i32:LEAST..MOST, NAME=null, NAME=FILE.npy, of a "
    "structure NAME={FIELD=…, FIELD=…}, or of a tensor map NAME=map(f32[SIZE,SIZE], box=8x32)"
)
_POISON = 0xFF
_SHARE = 0.125  # of drawn integers, those that equal one of the whole numbers
_BRIEF = 2.0  # seconds of a run of a guess
_OUTSIDE = frozenset(("out-of-bounds", "misaligned"))
_REFUSED = frozenset(("assert", "trap"))  # kinds of what a kernel says of its arguments itself
_MOST = 64  # drawn integers are below this, and below the size of arrays of several elements

_Place: TypeAlias = tuple[str, str, int]  # of a finding: its kind, file and line


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    What is empty is guessed: ``grid``, ``block``, ``args``, and ``shared`` where it is None.
    Without a ``kernel`` it is each of the file.
    """

    file: Path
    kernel: str
    grid: str
    block: str
    args: tuple[str, ...]
    shared: int | None
    defines: tuple[str, ...]
    includes: tuple[Path, ...]
    schedules: int
    seed: int
    timeout: float

    @property
    def flags(self) -> list[str]:
        """The options of NVRTC."""
        folders = (self.file.resolve().parent, *self.includes)
        return [*(f"-D{d}" for d in self.defines), *(f"-I{f}" for f in folders)]


def sanitize(asked: Request, json: bool) -> int:
    """Run kernels in several orders of warps and print what the checks found.

    Of a file of several kernels, each is run by itself; one that is refused is said to be.
    """
    require_folders(asked.includes, "--include")
    given = (extents(asked.grid, "--grid") if asked.grid else None,
             extents(asked.block, "--block") if asked.block else None)  # fmt: skip
    args = arguments(vary.first(named(asked.args)), asked.seed)
    source = sources.Source.read(asked.file)
    made: sources.Made = {}
    names = (asked.kernel,) if asked.kernel else _names(asked, source, made)
    if len(names) == 1:
        records = [_record(asked, names[0], source, made, given, args)]
        document = records[0]
    else:
        records = [_tried(asked, name, source, made, given, args) for name in names]
        document = {"file": str(asked.file), "kernels": records}
    if json:
        exits.print_json(document)
    else:
        for found in records:
            show.text(found)
    return max((_CODES[r["verdict"]] for r in records), key=_WORST.index)


_CODES = {
    "faulty": exits.DISAGREE, "disputed": exits.DISAGREE, "refused": exits.BAD_INPUT,
    "clean": exits.AGREE, "nothing ran": exits.NOTHING_RAN,
}  # fmt: skip
_WORST = (exits.AGREE, exits.NOTHING_RAN, exits.BAD_INPUT, exits.DISAGREE)


def _names(asked: Request, source: sources.Source, made: sources.Made) -> tuple[str, ...]:
    """Return the kernels of a file, and the instances of templates that its host code launches."""
    found = sources.names(source, asked.flags, made)
    if source.file.endswith(".ptx"):
        return found or ("",)
    bare = host_code.bare(source.text)
    known = host_code.constants(bare)
    reached = (c for c in host_code.calls(bare) if host_code.is_reached(bare, c, known))
    calls = (host_code.instance(c, known) for c in reached)
    launched = dict.fromkeys(host_code.typed(bare, name) for name in calls)
    more = [k for k in launched if "<" in k and not any(_is_of(n, k) for n in found)]
    return (*found, *more) if len(found) + len(more) > 1 else (*more, *("" for _ in found)) or ("",)


def _is_of(mangled: str, instance: str) -> bool:
    """Return whether a name in PTX is that of some instance of a template."""
    plain = host_code.plain(instance)
    return f"{len(plain)}{plain}I" in mangled


def _tried(asked: Request, name: str, *given: Any) -> dict[str, Any]:
    """Return the record of one of several kernels; of one that is refused, why."""
    try:
        return _record(asked, name, *given)
    except DidymaError as e:
        return {"file": str(asked.file), "kernel": name, "verdict": "refused", "error": str(e)}


def _record(
    asked: Request,
    name: str,
    source: sources.Source,
    made: sources.Made,
    given: tuple[Extents | None, Extents | None],
    args: Sequence[engine.Argument],
) -> dict[str, Any]:
    """Run a kernel and return what was found."""
    kernel = sources.compiled(source, name, asked.flags, made=made)
    also = sources.unoptimised(source, name, asked.flags, made=made)
    macros = (f"#define {d.replace('=', ' ', 1)}\n" for d in asked.defines)
    text = "".join((*macros, source.text))
    spoken = "" if name == kernel.name else name  # as the text has it
    near = guess.shape(text, kernel, spoken)
    shape = Shape(given[0] or near.grid, given[1] or near.block)
    shared = guess.shared(text, kernel, spoken) if asked.shared is None else asked.shared
    runs = bool(shape.blocks and shape.threads and asked.schedules)

    def run(begun: _Launch, *, brief: bool) -> engine.Sanitized:
        if not runs:
            return engine.Sanitized((), 0, 0, ())
        how = (1, _BRIEF) if brief else (asked.schedules, asked.timeout)
        more = () if brief else also
        return engine.sanitize(source, kernel, begun.shape, begun.args, shared, *how, also=more)

    if kernel.program.kernel.params and not args:
        guesses = guess.launches(text, kernel, spoken, shape, firm=given[1] is not None)
        begun, done = _guessed(guesses, asked.seed, run)
        others = vary.guessed(text, kernel, spoken, begun.shape, begun.items)
    else:
        begun = _Launch(shape, args)
        done, others = run(begun, brief=False), vary.given(named(asked.args), shape)
    other, varied = Second("macros of the command line"), tuple[str, ...]()
    if runs and not asked.defines:
        other = second(source, name, begun.shape, begun.args, shared, done)
    if runs and begun.first:
        launches = ((o, arguments(guess.zeroed(o.items, begun.zeros), asked.seed)) for o in others)
        done, varied = vary.more(source, kernel, begun.shape, launches, shared, asked.timeout, done)
    called = name or source_name(source.text, kernel)
    record = show.record(done, str(asked.file), called, begun.shape, shared, begun.items, varied)
    disputed = {"verdict": "disputed"} if other.differs and not done.faults else {}
    return record | disputed | {"simt": {"outside": other.outside, "differs": other.differs}}


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch with its arguments; of guessed ones also their items.

    Integers named in ``zeros`` start as zeros.  The ``first`` guess is the usual one.  Where no
    guess is free of faults, ``everywhere`` are the kinds and lines of those that all guesses show.
    """

    shape: Shape
    args: Sequence[engine.Argument]
    items: Sequence[str] = ()
    zeros: frozenset[str] = frozenset()
    first: bool = True
    everywhere: frozenset[_Place] = frozenset()

    def cleared(self, done: engine.Sanitized) -> engine.Sanitized:
        """Return what was found, less what guessed arguments are to blame for.

        That is what another guess does not show, and what the kernel itself refuses.
        """
        if not self.items:
            return done
        found = (replace(f, kind="refused") if f.kind in _REFUSED else f for f in done.findings)
        kept = (f for f in found if f.is_note or _place(f) in (self.everywhere or {_place(f)}))
        return replace(done, findings=tuple(sorted(kept, key=lambda f: f.is_note)))


def _place(f: engine.Finding) -> _Place:
    return f.kind, f.file, f.line


def _guessed(
    guesses: Iterable[tuple[Shape, Sequence[str], bool]],
    seed: int,
    run: Callable[..., engine.Sanitized],
) -> tuple[_Launch, engine.Sanitized]:
    """Return the first launch with which nothing is found, or else the first, and what it finds.

    ``run`` runs a launch, a ``brief`` one in one order.  Guesses that may hide faults only clear a
    kernel of accesses beyond guessed arrays.
    """
    tried = list[_Launch]()
    shown = list[frozenset[_Place]]()
    for shape, items, hides in guesses:
        if tried and hides and any(kind not in _OUTSIDE for kind, _, _ in shown[0]):
            continue
        now = _Launch(shape, arguments(items, seed), items, first=not tried)
        done = run(now, brief=True)
        if done.met:
            items = guess.zeroed(items, done.met)
            now = replace(now, args=arguments(items, seed), items=items, zeros=done.met)
            done = run(now, brief=True)
        if not now.cleared(done).faults:
            done = run(now, brief=False)
        found = frozenset(_place(f) for f in now.cleared(done).faults)
        if not found:
            return now, now.cleared(done)
        shown += [] if tried and hides else [found]
        tried.append(now)
    everywhere = reduce(frozenset[_Place].intersection, shown)
    first = replace(tried[0], everywhere=everywhere)
    return first, first.cleared(run(first, brief=False))


def extents(text: str, option: str) -> tuple[int, int, int]:
    """Return one to three extents; DidymaError ``bad-option``.

    >>> extents("4,2", "--grid")
    (4, 2, 1)
    """
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdecimal() and int(p) for p in parts):
        raise DidymaError(
            "bad-option", f"{option} {text}", got=text, want="X[,Y[,Z]], each from 1 on"
        )
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def arguments(items: Sequence[str], seed: int) -> list[engine.Argument]:
    """Return the arguments of a launch, in order; arrays without values are drawn.

    Integers are drawn so that they are valid as indices of each array, unless the item has a range;
    some are equal to one of the whole numbers, with which a kernel may compare them.
    Errors: ``bad-option``, ``unknown-dtype``, ``unreadable-file``.

    >>> [(a.name, a.value.shape, a.output) for a in arguments(["x=f32[2,3]", "n=i32:7"], 0)]
    [('x', (2, 3), False), ('n', (), False)]
    """
    rng = np.random.default_rng(seed)
    items = named(items)
    plain = [f for i in items for f in _fields(i)]
    sizes = [math.prod(_shape(m[3])) for i in plain if (m := _ARRAY.match(i.partition("=")[2]))]
    most = min((_MOST, *(s for s in sizes if s > 1)))
    told = [int(m[1]) for i in plain if (m := _WHOLE.match(i.partition("=")[2]))]
    usual = [n for n in dict.fromkeys(told) if 0 <= n < most]
    return [_argument(item, rng, most, usual) for item in items]


def named(items: Sequence[str]) -> list[str]:
    """Return items, each with a name.

    >>> named(["f32[9]", "n=i32:9"])
    ['1=f32[9]', 'n=i32:9']
    """
    return [_named(item, k) for k, item in enumerate(items, 1)]


def _named(item: str, place: int) -> str:
    """Return an item with a name: its own, or its place among the arguments.

    >>> _named("f32[9]", 2), _named("{n=i32:9}", 1), _named("x=null", 3)
    ('2=f32[9]', '1={n=i32:9}', 'x=null')
    """
    bare = "=" not in item or maps.is_map(item) or item.startswith("{")
    return f"{place}={item}" if bare else item


def _fields(item: str) -> list[str]:
    """Return the fields of an item, in all structures in it; of another item, itself."""
    spec = item.partition("=")[2]
    if maps.is_map(spec):
        return [f"array={maps.read(spec, item)[0]}"]
    m = _STRUCT.match(spec)
    return [f for part in split(m[1]) for f in _fields(part)] if m else [item]


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.replace(" ", "").split(",") if n)


def _argument(
    item: str, rng: np.random.Generator, most: int, usual: Sequence[int]
) -> engine.Argument:
    name, equals, spec = item.partition("=")
    if equals and name:
        if maps.is_map(spec):
            array, box = maps.read(spec, item)
            return maps.tensor_map(_argument(f"{name}={array}", rng, most, usual), box)
        if (m := _STRUCT.match(spec)) and m[1].strip():
            fields = tuple(_argument(f, rng, most, usual) for f in split(m[1]))
            return engine.Argument(name, np.zeros((), np.uint8), fields=fields)
        if m := _ARRAY.match(spec):
            dtype, shape = _dtype(m[2], item), _shape(m[3])
            bounds = (int(m[4]), int(m[5]) + 1) if m[4] else (0, most)
            values = _drawn(m[1] or "", dtype, shape or (1,), rng, bounds)
            if usual and not m[1] and not m[4] and dtype.is_int:
                at = rng.random(values.shape) < _SHARE
                values[at] = rng.choice(np.array(usual), int(at.sum()))
            made = engine.Argument(name, values, m[1] == "out")
            return made if m[6] is None else _strided(made, m[6], m[7], item)
        if m := _FILE.match(spec):
            return engine.Argument(name, array_of(Path(m[2]), f"--arg {item}"), m[1] == "out")
        if spec == "null":
            return engine.Argument(name, np.zeros((), np.uint64))
        if m := _SCALAR.match(spec):
            return engine.Argument(name, _number(m[2], _dtype(m[1], item), item))
    raise DidymaError("bad-option", f"--arg {item}", got=item, want=_WANT)


def _strided(a: engine.Argument, strides: str, offset: str | None, item: str) -> engine.Argument:
    """Return an array whose elements lie at strides, in elements, and what is between them.

    The address that is passed is that of the first element, ``offset`` elements behind the begin
    of the memory.  DidymaError ``bad-option`` for other strides than one for each axis, for an
    offset with which an element lies before the memory, and for an output whose elements share
    memory.
    """
    shape, steps = a.value.shape, tuple(int(n) for n in strides.replace(" ", "").split(",") if n)
    if len(steps) != len(shape):
        want = f"a stride for each of {len(shape)} axes"
        raise DidymaError("bad-option", f"--arg {item}", got=f"{len(steps)} strides", want=want)
    least = layouts.first(shape, steps)
    before = int(offset) - least if offset else 0
    if before < 0:
        want = f"offset={least} or more, or none, which is that"
        raise DidymaError("bad-option", f"--arg {item}", got=f"offset={offset}", want=want)
    free = np.concatenate((np.ones(before, np.bool_), layouts.between(shape, steps)))
    if a.output and np.count_nonzero(~free) < a.value.size:
        want = "elements of an output that share no memory"
        raise DidymaError("bad-option", f"--arg {item}", got=f"strides ({strides})", want=want)
    memory = np.full(free.size * a.value.itemsize, _POISON, np.uint8).view(a.value.dtype)
    memory[before:] = layouts.spread(a.value, steps)
    written = np.repeat(free == a.output, a.value.itemsize)
    start = (before + least) * a.value.itemsize
    return replace(a, value=memory, written=written, start=start)


def _dtype(name: str, item: str) -> DType:
    try:
        found = DType(name)
    except ValueError:
        found = None
    if found is None or found.is_packed:
        known = ", ".join(d.value for d in DType if not d.is_packed)
        raise DidymaError("unknown-dtype", f"--arg {item}", got=name, want=f"one of {known}")
    return found


def _drawn(
    how: str,
    dtype: DType,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    bounds: tuple[int, int],
) -> Array:
    d = dtype.numpy
    if how == "out":
        return np.full(math.prod(shape) * d.itemsize, _POISON, np.uint8).view(d).reshape(shape)
    if how == "zero":
        return np.zeros(shape, d)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(d)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(d)
    info = np.iinfo(d)
    low, high = max(bounds[0], int(info.min)), min(bounds[1], int(info.max) + 1)
    return rng.integers(low, max(high, low + 1), shape).astype(d)


def _number(text: str, dtype: DType, item: str) -> Array:
    try:
        value: Any = float(text) if dtype.is_float else int(text, 0)
        return np.array(value, dtype.numpy)
    except (ValueError, OverflowError) as e:
        want = f"a number that {dtype.value} has"
        raise DidymaError("bad-option", f"--arg {item}", got=text, want=want) from e
