"""Judge index arithmetic: by all of its values, and by what schedules make of a nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.codegen.lower.affine import Affine, Poly
from didyma.codegen.options import Options
from didyma.codegen.schedule import schedule
from didyma.codegen.schedule.nest import NestFacts, nests
from didyma.fuzz import counters
from didyma.fuzz.emission.judge import differing, initial
from didyma.fuzz.emission.kernels import Case
from didyma.fuzz.indices.evaluate import evaluate
from didyma.oracle import lanes
from didyma.oracle.report import Finding
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.loop import INDEX, Binary, Expr, For, Load, PrimFunc, Store, Var
from didyma.refimpl.ir.text import show, show_expr
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import exprs, stmts, subexprs
from didyma.refimpl.verify import loop as laws

LEVEL = "affine"


@dataclass(slots=True)
class Judged:
    """What was found of a nest, how many values were compared, and how it was scheduled.

    ``counters`` are those of its kernels, and for each way to simplify its indices the expressions
    that these then have.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    total: int = 0
    schedules: tuple[str, ...] = ()
    counters: Counter[str] = field(default_factory=Counter[str])


def judge(case: Case, options: Options) -> Judged:
    """Compare what affine arithmetic says of a nest with all values, and its kernels with it."""
    laws.verify(case.kernel)
    found = Judged()
    with np.errstate(all="ignore"):
        try:
            _affine(found, case)
        except Exception as e:
            found.findings.append(Finding(LEVEL, "index", "error", f"{type(e).__name__}: {e}"))
        _schedules(found, case, options)
    return found


# ---- indices


def _affine(found: Judged, case: Case) -> None:
    f = case.kernel
    loops = [s for s in stmts(f.body) if isinstance(s, For)]
    values: dict[str, Array] = {k: np.asarray(v, np.int64) for k, v in case.env}
    sizes = [int(evaluate(s.extent, values)) for s in loops]
    for k, (s, count) in enumerate(zip(loops, sizes, strict=True)):
        values[s.var.name] = np.arange(count).reshape((-1, *(1,) * (len(loops) - k - 1)))
    if 0 in sizes:
        return
    affine = Affine(f.dims)
    for s in loops:
        affine.loop(s.var, s.extent)
    texts = dict[str, list[str]]()
    for e in _indices(f, set(values)):
        x = np.asarray(evaluate(e, values))
        found.total += x.size
        made = {
            "simplify": affine.simplify(e),
            "poly": affine.expr(affine.poly(e)),
            "offset": affine.expr(affine.offset([e], [affine.poly(ix.ONE)])),
        }
        for how, y in made.items():
            found.counters[how] += len(subexprs(y))
            texts.setdefault(how, []).append(show_expr(y))
            if (x != evaluate(y, values)).any():
                _report(found, how, e, f"{show_expr(y)} differs")
        _bounds(found, affine, e, x, values)
    found.counters.update(counters.of_texts({how: str(made) for how, made in texts.items()}))
    _offsets(found, f, affine, values)
    facts = NestFacts.of(f, nests(f.body)[0], Options())
    for e, size in ((s.extent, n) for s, n in zip(loops, sizes, strict=True)):
        if facts.largest(e) < size:
            _report(found, "largest", e, f"{facts.largest(e)} where it is {size}")


def _indices(f: PrimFunc, known: set[str]) -> Iterator[Expr]:
    """Yield the different index expressions over loops and sizes."""
    seen: set[Expr] = set()
    for e in exprs(f.body):
        if isinstance(e, Binary) and e.dtype is INDEX and e not in seen:
            seen.add(e)
            parts = list(subexprs(e))
            if all(not isinstance(p, Load) and p.dtype is INDEX for p in parts) and all(
                p.name in known for p in parts if isinstance(p, Var)
            ):
                yield e


def _bounds(found: Judged, affine: Affine, e: Expr, x: Array, values: Mapping[str, Array]) -> None:
    """Compare the ends of an expression, and whether it lies within some sizes."""
    p = affine.poly(e)
    low, high = int(x.min()), int(x.max())
    for how, end, sign in (("lower", affine.lower(p), 1), ("upper", affine.upper(p), -1)):
        bound = None if end is None else int(_value(affine, end, values))
        if bound is not None and bound * sign > (low if sign > 0 else high) * sign:
            _report(found, how, e, f"{bound}, but it runs from {low} to {high}")
    names = sorted(k for k, v in values.items() if not v.ndim)
    for n in (ix.index(high), ix.index(high + 1), ix.index(max(1, high - 1)), *map(Var, names)):
        size = int(evaluate(n, values))
        if affine.within(p, affine.poly(n)) and not 0 <= low <= high < size:
            _report(found, "within", e, f"from {low} to {high}, not below {size}")


def _value(affine: Affine, p: Poly, values: Mapping[str, Array]) -> Array:
    return evaluate(affine.expr(p), values)


def _offsets(found: Judged, f: PrimFunc, affine: Affine, values: Mapping[str, Array]) -> None:
    """Compare the row-major offsets of loads and stores."""
    shapes = {b.name: b.shape for b in f.params}
    places = [(s.buffer, s.index) for s in stmts(f.body) if isinstance(s, Store)]
    places += [(e.buffer, e.index) for e in exprs(f.body) if isinstance(e, Load)]
    for name, index in places:
        if all(set(_names(i)) <= values.keys() and not _loads(i) for i in index):
            sizes = [ix.of_dim(d) for d in shapes[name]]
            made = affine.expr(affine.offset(index, [affine.poly(n) for n in sizes]))
            flat = np.zeros((), np.int64)
            for i, n in zip(index, sizes, strict=True):
                flat = flat * evaluate(n, values) + evaluate(i, values)
            if (flat != evaluate(made, values)).any():
                _report(found, "offset", Load(name, index, INDEX), f"{show_expr(made)} differs")


def _names(e: Expr) -> Iterator[str]:
    return (x.name for x in subexprs(e) if isinstance(x, Var))


def _loads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in subexprs(e))


def _report(found: Judged, how: str, e: Expr, message: str) -> None:
    found.findings.append(Finding(LEVEL, how, "value", f"{show_expr(e)}: {message}"))


# ---- schedules


def _schedules(found: Judged, case: Case, options: Options) -> None:
    """Run a nest, and its kernels, and compare the results."""
    f = case.kernel
    before = initial(case)
    try:
        want = _run((f,), f, before, case)
    except LoopFault as e:
        found.findings.append(Finding("loop", f.name, "fault", str(e)))
        return
    try:
        kernels = schedule(f, options)
        for k in kernels:
            laws.verify(k)
        found.counters.update(counters.of_kernels(kernels, dict(case.env)))
        found.counters.update(counters.of_texts({"kernels": "\n".join(map(show, kernels))}))
        found.schedules = tuple(str(dict(k.attrs)["schedule"]) for k in kernels)
        got = _run(kernels, f, before, case)
    except Exception as e:
        kind = "fault" if isinstance(e, LoopFault) else "error"
        found.findings.append(Finding("kernel", f.name, kind, f"{type(e).__name__}: {e}"))
        return
    for b, w, g in zip(f.params, want, got, strict=True):
        wrong = differing(w, g, b.dtype, 0.0)
        found.total += w.size
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            text = f"element {at} is {g.flat[at]!r}, want {w.flat[at]!r}; {int(wrong.sum())} differ"
            found.findings.append(Finding("kernel", b.name, "value", text))


def _run(
    kernels: Sequence[PrimFunc], f: PrimFunc, before: Sequence[Array], case: Case
) -> list[Array]:
    env = dict(case.env)
    held = {b.name: a.copy() for b, a in zip(f.params, before, strict=True)}
    for b in scratch(kernels, held):
        held[b.name] = np.full(dims.values(b.shape, env), 1, b.dtype.numpy)
    for k in kernels:
        views = {b.name: held[b.name].reshape(dims.values(b.shape, env)) for b in k.params}
        lanes.run(k, views, env)
    return [held[b.name] for b in f.params]
