"""External functions: who runs them, what they are given, and what they may return.

A function adds its inputs with whole factors, and each implementation adds a number of its own, by
which it is known.  Modules carry implementations as files and a table of lines, which is read back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any

import numpy as np

from didyma.codegen import plugins
from didyma.codegen.emit.externs import Entry, table
from didyma.codegen.runtime import didyma_runtime
from didyma.codegen.runtime.carried import Carried
from didyma.codegen.runtime.didyma_runtime import externs as loaded
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Bound, InPlace, OnDevice, bound, routines
from didyma.fuzz.parts.told import code_of, differ, registered
from didyma.refimpl.ir.external import External, externals
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType

SIZES: Mapping[str, int] = {"n": 3, "m": 2}
KINDS = {"f32": ("f32", "f64"), "i32": ("i32", "i64")}  # of inputs, and those of results
NAMES = ("own", "blas")  # of the function, whose implementation is meant first, and its compiler
FORMS = ("call", "row", "tuple", "out", "carried", "carried out", "generator")

Rows = Sequence[Sequence[int]]  # of each result, the factor of each input


@dataclass(frozen=True, slots=True)
class Case:
    """A module with an external function, its inputs, and the factors of each of its results.

    ``kinds`` are those of the results, which have the ``shape`` of the first inputs.  The last
    input may have no factors.
    """

    module: Module
    kinds: tuple[str, ...]
    shape: tuple[int, ...]
    rows: Rows
    inputs: tuple[Array, ...]

    @property
    def types(self) -> list[tuple[str, tuple[int, ...]]]:
        """The dtypes and shapes of the inputs, and then of the results."""
        inputs = [(str(DType.of(a)), a.shape) for a in self.inputs]
        return [*inputs, *((k, self.shape) for k in self.kinds)]

    def results(self, tag: int, inputs: Sequence[Array] = ()) -> list[Array]:
        """Return the results of an implementation that adds ``tag``; of the body for 0."""
        totals = (
            sum(n * a for n, a in zip(row, inputs or self.inputs, strict=False))
            for row in self.rows
        )
        pairs = enumerate(zip(totals, self.kinds, strict=True), 1)
        return [np.asarray(t + tag * i, DType(k).numpy) for i, (t, k) in pairs]


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with an external function, its implementations, and a module's table."""
    c = drawn(r)
    x = externals(c.module)["own"]
    yield from differ(x.sizes, tuple(sorted(_symbols(c))), "the sizes of a function")
    tags = {name: n for n, name in enumerate(NAMES, 3) if r.random() < 0.4}
    known = {name: n for n, name in enumerate(NAMES, 6) if r.random() < 0.1}
    given = {name: _implementation(r, c, n) for name, n in tags.items()}
    tag = next(({**known, **tags}[n] for n in NAMES if n in {*tags, *known}), 0)
    if r.random() < 0.2:
        given["own"], tag = OnDevice(lambda f, ys, xs: None), 0
    with registered(plugins.EXTERNS, {name: _implementation(r, c, n) for name, n in known.items()}):
        found = bound(c.module, given)
    yield from differ([*found], ["own"], "functions that are bound")
    yield from _runs(c, found["own"], tag, engine)
    yield from differ([*routines(found)], [x.routine], "names of routines")
    yield from _refused(r, c) if r.random() < 0.5 else _table(r, c, x, engine)


def _symbols(c: Case) -> set[str]:
    types = [p.type for p in c.module.functions[0].params]
    return {s for t in types for d in t.shape for s in SIZES if s in str(d)}


def drawn(r: Random) -> Case:
    """Return a module whose external function adds arrays of one type, and takes another one."""
    kind = r.choice([*KINDS])
    sizes = [r.choice(("2", "1", *SIZES)) for _ in range(r.randint(0, 2))]
    t = f"{kind}[{', '.join(sizes)}]"
    count = r.randint(1, 3)
    rows = [[r.choice((1, 2)) for _ in range(count)] for _ in range(r.randint(1, 3))]
    names = [f"%x{k}" for k in range(count)]
    kinds = [r.choice(KINDS[kind]) for _ in rows]
    lines, results = list[str](), list[str]()
    for i, (row, to) in enumerate(zip(rows, kinds, strict=True)):
        terms = [name for name, n in zip(names, row, strict=True) for _ in range(n)]
        last = terms[0]
        for k, term in enumerate([*terms[1:], *([] if terms[1:] else [terms[0]])]):
            lines.append(f"    %t{i}_{k} = add({last}, {term}) : {t}")
            last = f"%t{i}_{k}"
        if to != kind:
            lines.append(f"    %c{i} = cast({last}, dtype={to}) : {t.replace(kind, to)}")
            last = f"%c{i}"
        results.append(last)
    rows = [row if sum(row) > 1 else [2] for row in rows]
    more = r.random() < 0.4
    params = ", ".join([*(f"{n}: {t}" for n in names), *(["%z: i8[3]"] if more else [])])
    given = ", ".join([*names, *(["%z"] if more else [])])
    listed = ", ".join(results)
    outs = ", ".join(f"%r{i}" for i in range(len(rows)))
    types = ", ".join(t.replace(kind, to) for to in kinds)
    used = [s for s in SIZES if s in sizes]
    dims = f"  dims {', '.join(f'{s} in [1, 9]' for s in used)}\n" if used else ""
    module = parse_module(
        f"module {{\n{dims}  func @own({params}) -> ({listed}) attrs(Compiler=\"blas\") {{\n"
        + "\n".join(lines)
        + f"\n  }}\n  func @main({params}) -> ({outs}) {{\n"
        f"    {outs} = call @own({given}) : {types}\n  }}\n}}\n"
    )  # fmt: skip
    shape = tuple(SIZES[s] if s in SIZES else int(s) for s in sizes)
    count = math.prod(shape)
    inputs = [np.array([r.randint(-9, 9) for _ in range(count)]).reshape(shape) for _ in names]
    summed = [a.astype(DType(kind).numpy) for a in inputs]
    others = [np.array([1, 2, 3], np.int8)] if more else []
    return Case(module, tuple(kinds), shape, rows, (*summed, *others))


def _implementation(r: Random, c: Case, tag: int) -> Any:
    """Return an implementation of some form, which adds a number to each result."""
    form = r.choice([f for f in FORMS if len(c.rows) == 1 or f != "call"])

    def each(*inputs: Array) -> list[Array]:
        return c.results(tag, inputs)

    def out(*inputs: Array, out: Any) -> None:
        results = each(*inputs)
        for i, a in enumerate(results):
            (out if len(results) == 1 else out[i])[...] = a

    def first(*inputs: Array) -> Array:
        return each(*inputs)[0]

    def row(*inputs: Array) -> tuple[Array, ...]:
        return tuple(each(*inputs))

    made = carried(c, tag, out=form == "carried out")
    forms: Mapping[str, Any] = {
        "call": first, "row": each, "tuple": row, "out": InPlace(out), "carried": made,
        "carried out": made, "generator": _Generator(made),
    }  # fmt: skip
    return forms[form]


class _Generator:
    """Makes the implementation of the function ``own``, and of no other."""

    def __init__(self, made: Carried) -> None:
        self.made = made

    def carried(self, function: External) -> Carried:
        assert function.function.name == "own"
        return self.made


def carried(c: Case, tag: int, *, out: bool) -> Carried:
    """Return an implementation as a text, whose factors are constants."""
    row = f"[sum(n * a for n, a in zip(f, x)) + {tag} * (i + 1) for i, f in enumerate(F)]"
    targets = "out" if len(c.rows) > 1 else "[out]"  # one array, and of several a tuple
    names = [np.dtype(DType(k).numpy).name for k in c.kinds]
    body = f"    return [np.asarray(a, k) for a, k in zip({row}, {names})]"
    body = f"    for y, a in zip({targets}, {row}):\n        y[...] = a" if out else body
    head = "def own(*x, out):" if out else "def own(*x):"
    source = f"import numpy as np\nF = constants['factors'].tolist()\n{head}\n{body}\n"
    return Carried(source, "own", out, constants={"factors": np.array(c.rows)})


def _runs(c: Case, b: Bound, tag: int, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with the results of a bound function: of arrays and of buffers."""
    sizes = {s: n for s, n in SIZES.items() if s in b.external.sizes}
    want = [a.tolist() for a in c.results(tag)]
    everywhere = b.implementation is not None and not isinstance(b.implementation, OnDevice)
    yield from differ(b.runs_anywhere, everywhere, f"whether {b.implementation} runs anywhere")
    made = b.implementation if isinstance(b.implementation, Carried) else None
    yield from differ(b.carried, made, "what is carried")
    for found in (b(c.inputs, sizes), b.on(engine, c.inputs, sizes)):
        yield from differ([a.tolist() for a in found], want, f"results of {b.implementation}")
    values = tuple(sizes[s] for s in b.external.sizes)
    got = _on_buffers(b.routine, engine, c, {"sizes": values} if values else {})
    yield from differ(got, want, f"buffers that {b.implementation} fills")


def _on_buffers(
    routine: Callable[..., Any], engine: Engine, c: Case, attrs: Mapping[str, Any]
) -> list[Any]:
    """Return what a routine leaves in buffers for its results."""
    inputs = [engine.upload(a) for a in c.inputs]
    zeros = [np.zeros(c.shape, DType(k).numpy) for k in c.kinds]
    outputs = [engine.upload(a) for a in zeros]
    try:
        routine(engine, outputs, inputs, attrs)
        return [
            engine.download(b, k, c.shape).tolist() for b, k in zip(outputs, c.kinds, strict=True)
        ]
    finally:
        for b in (*inputs, *outputs):
            engine.free(b)


def _refused(r: Random, c: Case) -> Iterator[str]:
    """Yield whether something is taken that is no implementation, or that returns what is none."""

    def raising(*inputs: Array) -> None:
        raise ValueError("no")

    def wrong(*inputs: Array) -> list[Array]:
        rows = c.results(0, inputs)
        return [*rows[:-1], rows[-1].astype(np.int8)]

    class Unmade:
        def carried(self, function: External) -> int:
            return len(function.sizes)

    sizes = {s: n for s, n in SIZES.items() if s in _symbols(c)}

    def asked(given: Mapping[str, Any]) -> object:
        return bound(c.module, given)["own"](c.inputs, sizes)

    code, given = r.choice(
        (
            ("unknown-extern", {"other": raising}), ("bad-part", {"own": 3}),
            ("bad-part", {"blas": _Generator}), ("failed-part", {"own": raising}),
            ("failed-part", {"blas": Unmade()}), ("extern-result", {"own": wrong}),
        )
    )  # fmt: skip
    yield from differ(code_of(asked, given), code, f"{given} as an implementation")


def _table(r: Random, c: Case, x: External, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a module's table of external functions, which is read and run."""
    out, tag = r.random() < 0.5, r.randint(1, 9)
    made = carried(c, tag, out=out)
    files = {"own.py": made.source.encode(), "own.npz": made.arrays() or b""}
    named = {name: (name, sha256(data).hexdigest()) for name, data in files.items()}
    entry = Entry(x, "own", out, named["own.py"], None, named["own.npz"])
    yield from differ([*table({})], [], "lines of no table")
    space: dict[str, Any] = {"rt": didyma_runtime}
    exec("\n".join(table({x.routine: entry})), space)
    (row,) = space["EXTERNS"].values()
    sizes = {s: SIZES[s] for s in x.sizes}
    told = (row.symbol, row.out, row.sizes, row.inputs, row.dtypes, row.library)
    want = ("own", out, x.sizes, len(c.inputs), tuple(t for t, _ in c.types), None)
    yield from differ(told, want, "a row of the table")
    yield from differ(row.shapes(sizes), tuple(s for _, s in c.types), "its shapes")
    wanted = list[str]()

    def read(name: str, what: str) -> bytes:
        wanted.append(name)
        return files[name] + b"\n" * (what.startswith("the text") and spoilt)

    spoilt = False
    (run,) = loaded.routines(read, space["EXTERNS"]).values()
    yield from differ(sorted(wanted), sorted(files), "files that are read")
    attrs = {"sizes": tuple(sizes.values())} if sizes else {}
    got = _on_buffers(run, engine, c, attrs)
    yield from differ(got, [a.tolist() for a in c.results(tag)], f"what {made.source} fills")
    spoilt = True
    code = code_of(loaded.routines, read, space["EXTERNS"])
    yield from differ(code, "hash-mismatch", "a text with another last byte")
