"""Judge a program as what is built of it: a module that stands alone, with files beside it.

Its calls give the bits of the program's wrapper, whose lines an engine runs one by one, though the
module repeats an earlier call of the same shapes at once, and wherever its inputs lie; and so does
what walks the program's JSON.  One that pads its inputs to buckets gives the first elements of what
its lines give.  Calls keep no input, and results show
the bytes of inputs and of one another where the program says so, and nowhere else.  A file that is
not the one that the module was written for is refused.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import walk
from didyma.codegen.runtime.didyma_runtime.host import here
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.externs import bound, routines
from didyma.codegen.runtime.objects import shared_object
from didyma.fuzz import alone_flat, alone_loaded, alone_memory, alone_padded
from didyma.fuzz.alone_refused import alike, refused
from didyma.fuzz.layouts import laid
from didyma.fuzz.levels import runner
from didyma.oracle.compare import bitwise
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.aliases import aliases
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array, TensorType

NAME = "module"
FAULT = "kernel-fault"
REPEATED = 4  # of so many modules, by the length of their text, one is first given one array twice
_BACKWARDS = 0.25  # the share of inputs with a negative stride
_KERNELS, _JSON = "kernels.so", "program.json"

Call: TypeAlias = Callable[[list[Array]], list[Array]]
Outcome: TypeAlias = tuple[str, Sequence[Array]]  # the code of an error, and results


def judged(c: Compiled, calls: Sequence[Sequence[Array]], engine: Engine) -> Level:
    """Return the level ``module`` of a compiled module, called in turn with the given inputs."""
    level = Recorder(NAME, engine.name)
    level.guard(NAME, partial(_judge, c, calls, engine, level))
    return level.level()


def _judge(c: Compiled, calls: Sequence[Sequence[Array]], engine: Engine, level: Recorder) -> None:
    by_lines = runner(c, engine)
    externs = routines(bound(c.fused))
    if not externs:
        _in_buckets(c, calls, engine, level)
    source, text, files = _built(c)
    with TemporaryDirectory() as folder:
        made, at = modules.module(source, f"{folder}/module.py"), Path(folder)
        for name, data in files.items():
            (at / name).write_bytes(data)
        for name, data in files.items():
            level.checks += 1
            (at / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            if _refusal(made["load"]) != "hash-mismatch":
                level.find(NAME, "error", f"{name} with another last byte is taken")
                return
            (at / name).write_bytes(data)
        asked = {"externs": externs} if externs else {}
        call = partial(made["call"], **asked)
        if (alone_flat.NAME in made) != alone_flat.is_flat(c.source, calls[0]):
            level.find(NAME, "error", f"{alone_flat.NAME} is there, or is not")
            return
        if alone_flat.NAME in made:
            flat = partial(made[alone_flat.NAME], **asked)
            _compare_flat(c, flat, calls, partial(by_lines, engine), level)
        (at / _JSON).write_text(text, encoding="utf-8")
        walked = None if externs else walk.program(at / _JSON)
        if len(source) % REPEATED == 0:
            for inputs in _repeated(c, calls[0]):
                want = _outcome(lambda given: by_lines(engine, given), list(inputs))
                code, got = _outcome(call, _given(c, inputs))
                if code == want[0] == "":
                    level.compare("one array", map(bitwise, c.source.entry.results, want[1], got))
                elif code != want[0]:
                    level.find(NAME, "error", f"one array twice raises {code or 'nothing'}")
        for number, inputs in enumerate((*calls, *_of_another_dtype(calls[0]))):
            want = _outcome(lambda given: by_lines(engine, given), list(inputs))
            found = [*_one(c, call, inputs, want, level)]
            found += _elsewhere(c, call, inputs, want, Random(number), level)
            if walked is not None and number % 2 == 0:
                found += _walked(c, walked, inputs, want, level)
            for wrong in found:
                level.find(NAME, "error", f"call {number + 1} {wrong}")
                return
        code, results = _outcome(partial(by_lines, engine), list(calls[0]))
        if not code:
            for told in alone_memory.wrong(c.source, c.program, text, calls[0], results):
                level.find(NAME, "error", told)
            for told in alone_loaded.wrong(c, calls[0], results):
                level.find(NAME, "error", f"its loader in C++: {told}")
        runs: Sequence[Call] = (call,) if walked is None else (call, walked)
        for run in runs:
            for want_code, inputs in refused(c.source, calls[0], Random(len(source))):
                level.checks += 1
                code, _ = _outcome(run, [np.array(a) for a in inputs])
                if not alike(code, want_code):
                    which = f"a call of shapes {[a.shape for a in inputs]}"
                    level.find(
                        NAME, "error", f"{which} raises {code or 'nothing'}, not {want_code}"
                    )
                    return


def _compare_flat(
    c: Compiled,
    flat: Callable[[list[Array], int], list[Array]],
    calls: Sequence[Sequence[Array]],
    by_lines: Call,
    level: Recorder,
) -> None:
    for inputs in calls:
        code, want = _outcome(by_lines, list(inputs))
        if not code:
            numel = max(a.size for a in inputs if a.ndim)
            for given in (alone_flat.larger(inputs), [np.array(a) for a in inputs]):
                got = flat(given, numel)
                level.compare(alone_flat.NAME, map(bitwise, c.source.entry.results, want, got))


def _in_buckets(
    c: Compiled, calls: Sequence[Sequence[Array]], engine: Engine, level: Recorder
) -> None:
    """Judge what pads its inputs, as a module and as JSON."""
    found = alone_padded.chosen(c.source, calls, Random(len(calls[0])))
    if found is None:
        return
    made, buckets = found
    by_lines = runner(made, engine)
    source, text, files = _built(made, buckets)
    with TemporaryDirectory() as folder:
        at = Path(folder)
        for name, data in {**files, _JSON: text.encode()}.items():
            (at / name).write_bytes(data)
        runs = modules.module(source, f"{folder}/module.py")["call"], walk.program(at / _JSON)
        for told in alone_loaded.in_buckets(c.source, made, buckets, calls[0]):
            level.find(NAME, "error", f"its loader in C++, in buckets: {told}")
        for inputs in calls:
            want = _outcome(
                lambda given: alone_padded.by_definition(
                    c.source, buckets, partial(by_lines, engine), given
                ),
                list(inputs),
            )
            for run in runs:
                code, got = _outcome(run, _given(c, inputs))
                if code != want[0]:
                    wrong = f"in buckets raises {code or 'nothing'}, and its lines {want[0]}"
                    level.find(NAME, "error", wrong)
                elif not code:
                    level.compare("buckets", map(bitwise, c.source.entry.results, want[1], got))


def _repeated(c: Compiled, inputs: Sequence[Array]) -> Iterator[Sequence[Array]]:
    """Yield inputs of which those of one type are one array, if there are any such."""
    first: dict[tuple[TensorType, tuple[int, ...]], Array] = {}
    pairs = zip(c.source.entry.params, inputs, strict=True)
    given = [first.setdefault((p.type, a.shape), a) for p, a in pairs]
    if len(first) < len(given):
        yield given


def _of_another_dtype(inputs: Sequence[Array]) -> Iterator[Sequence[Array]]:
    """Yield inputs of which the last has a dtype that the program does not take."""
    if inputs:
        *first, last = inputs
        yield *first, np.zeros(last.shape, np.int16 if last.dtype == np.uint8 else np.uint8)


def _walked(
    c: Compiled,
    call: Call,
    inputs: Sequence[Array],
    want: Outcome,
    level: Recorder,
) -> Iterator[str]:
    """Call what walks the JSON; yield what is wrong beside values, which are compared."""
    code, got = _outcome(call, _given(c, inputs))
    if code != want[0]:
        yield f"of the JSON raises {code or 'nothing'}, and its lines {want[0] or 'nothing'}"
    elif not code:
        level.compare("JSON", map(bitwise, c.source.entry.results, want[1], got))


def _elsewhere(
    c: Compiled,
    call: Call,
    inputs: Sequence[Array],
    want: Outcome,
    rng: Random,
    level: Recorder,
) -> Iterator[str]:
    """Call a module with inputs that lie in larger arrays, in any order of axes and backwards.

    Yield what is wrong beside values, which are compared: the larger arrays keep their bytes.
    """
    placed = [_laid(p.type, a, rng) for p, a in zip(c.source.entry.params, inputs, strict=True)]
    before = [root.tobytes() for root, _ in placed]
    code, got = _outcome(call, [view for _, view in placed])
    if code != want[0]:
        yield f"with strides raises {code or 'nothing'}, and its lines {want[0] or 'nothing'}"
    elif not code:
        level.compare("strides", map(bitwise, c.source.entry.results, want[1], got))
    if before != [root.tobytes() for root, _ in placed]:
        yield "with strides writes to the memory of its inputs"


def _laid(t: TensorType, a: Array, rng: Random) -> tuple[Array, Array]:
    if t.dtype.is_packed or not a.ndim or t.strides is not None:
        return a, a
    root, view = laid(a, rng)
    if rng.random() < _BACKWARDS:
        view[...] = a[::-1]
        view = view[::-1]
    return root, view


def _built(c: Compiled, buckets: Buckets | None = None) -> tuple[str, str, Mapping[str, bytes]]:
    """Return the source of the module, the JSON, and files beside both: kernels and constants."""
    files: dict[str, bytes] = {}
    objects: dict[str, tuple[str, str]] = {}
    if c.text.kernels:
        files[_KERNELS] = shared_object(c.text)
        objects[here()] = _KERNELS, hashlib.sha256(files[_KERNELS]).hexdigest()
    if any(t.data for _, t in c.program.constants):
        files[wrapper.weights_file(c.program)] = wrapper.weights(c.program)
    weights = wrapper.weights_table(c.program) if len(files) > len(objects) else None
    text = program_json(c.program, c.text, objects, weights, buckets=buckets)
    source = wrapper.emit(c.program, c.text, embedded=0, objects=objects, buckets=buckets)
    return source, text, files


def _one(
    c: Compiled,
    call: Call,
    inputs: Sequence[Array],
    want: Outcome,
    level: Recorder,
) -> Iterator[str]:
    """Call a module; yield what is wrong beside values, which are compared."""
    args = _given(c, inputs)
    kept = [weakref.ref(a) for a in args]
    code, got = _outcome(call, args)
    if code != want[0]:
        yield f"raises {code or 'nothing'}, and its lines {want[0] or 'nothing'}"
        return
    if code:
        return
    if args:
        yield "leaves its arguments in their list"
    level.compare(NAME, map(bitwise, c.source.entry.results, want[1], got))
    yield from _shared(
        c.program, got, {n: r() for n, r in zip(c.program.inputs, kept, strict=True)}
    )


def _given(c: Compiled, inputs: Sequence[Array]) -> list[Array]:
    """Return copies of inputs, and views of those whose strides are declared."""
    copies = {id(a): np.array(a, order="C") for a in inputs}  # one array given twice stays one
    pairs = zip(c.source.entry.params, inputs, strict=True)
    return [copies[id(a)] if p.type.strides is None else a.view() for p, a in pairs]


def _shared(p: Program, got: Sequence[Array], left: Mapping[str, Array | None]) -> Iterator[str]:
    """Yield where results share bytes with inputs, or one another, though nothing says so.

    ``left`` are the inputs that somebody keeps.
    """
    of = {a.number: a.of for a in aliases(p)}
    for i, r in enumerate(got):
        if r.size and r.flags.writeable == _repeats(r):
            yield f"returns result {i + 1} that {'may' if _repeats(r) else 'may not'} be written"
    for name, array in left.items():
        shows = [i for i in range(len(got)) if of.get(i) == name]
        if array is None:
            if any(got[i].size for i in shows):
                yield f"copies input {name}"
        elif not shows:
            yield f"keeps input {name}"
        elif any(_meet(r, array) != (i in shows) for i, r in enumerate(got) if r.size):
            yield f"returns other bytes of input {name} than it says"
    for i, k in combinations(range(len(got)), 2):
        whose = p.results[i], p.results[k]
        if of.get(i, whose[0]) != of.get(k, whose[1]) and _meet(got[i], got[k]):
            yield f"returns results {i + 1} and {k + 1} of the same bytes"


def _repeats(a: Array) -> bool:
    """Return whether an array shows an element more than once."""
    return any(s == 0 and n > 1 for n, s in zip(a.shape, a.strides, strict=True))


def _meet(a: Array, b: Array) -> bool:
    return bool(np.may_share_memory(a, b))


def _refusal(load: Callable[[], object]) -> str:
    """Return the code by which a module refuses to be loaded; empty if it does not."""
    try:
        load()
    except DidymaError as e:
        return e.code
    return ""


def _outcome(run: Call, inputs: list[Array]) -> Outcome:
    try:
        return "", run(inputs)
    except (DidymaError, Refused) as e:
        return e.code, ()
    except KernelFault:
        return FAULT, ()
