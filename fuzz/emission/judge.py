"""Judge a kernel's text: engines must do what the loop interpreter does, to the last bit.

Functions like ``exp`` may differ by the ulps of their contract, on each side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.fuzz import kits, values
from didyma.fuzz.emission.expressions import inexact
from didyma.fuzz.emission.kernels import Case
from didyma.fuzz.values import Distribution
from didyma.oracle import lanes
from didyma.oracle.report import Finding
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import Barrier, Binary, Cast, Expr, Load, PrimFunc, Stmt, Store
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import exprs, stmts
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.verify import loop as laws

SHARE = 0.3  # of the elements that are corners of the operations that read them
KINDS = (
    Distribution.MIXED,
    Distribution.MIXED,
    Distribution.CORNERS,
    Distribution.SMALL,
    Distribution.NORMAL,
    Distribution.BITS,
)


@dataclass(slots=True)
class Judged:
    """What was found of a kernel, how many elements were compared, and its ``text``."""

    findings: list[Finding] = field(default_factory=list[Finding])
    total: int = 0
    text: str = ""


def judge(case: Case, engines: Iterable[Engine]) -> Judged:
    """Run a kernel by the loop interpreter and on engines, and compare its outputs."""
    f, env = case.kernel, dict(case.env)
    laws.verify(f, SM_90A)  # which has all that a kernel may ask for
    found = Judged()
    before = initial(case)
    want = [a.copy() for a in before]
    names = [b.name for b in f.params]
    try:
        lanes.run(f, dict(zip(names, want, strict=True)), env)
    except LoopFault as e:
        found.findings.append(Finding("loop", f.name, "fault", str(e)))
        return found
    try:
        text = cuda.emit([f], contract=False)
    except Exception as e:
        message = f"{type(e).__name__}: {e}"
        found.findings.append(Finding("emit", "while compiling", "error", message))
        return found
    found.text = text.source
    if misplaced := next(_misplaced(text), ""):
        found.findings.append(Finding("emit", f.name, "lines", misplaced))
        return found
    loose = tolerances(f)
    for engine in engines:
        _on_engine(found, f, text, engine, before, want, env, loose)
    return found


def _misplaced(text: KernelText) -> Iterator[str]:
    """Yield statements whose lines, as the text has them, do not show them: stores and barriers."""
    lines, of = text.source.split("\n"), dict[int, tuple[Stmt, list[str]]]()
    for number, s in text.origins:
        of.setdefault(id(s), (s, []))[1].append(lines[number - 1])
    for s, own in of.values():
        shown = "__syncthreads()" if isinstance(s, Barrier) else getattr(s, "buffer", "")
        told = isinstance(s, Barrier | Store) and shown in text.source
        if told and not any(shown in line for line in own):
            yield f"{own} do not show {shown}"


def initial(case: Case) -> list[Array]:
    """Return what the parameters hold before the launch: by their names, so whatever others are."""
    f = case.kernel
    kind = KINDS[case.seed % len(KINDS)]
    wanted = corners(f)
    found: list[Array] = []
    for b in f.params:
        shape, seed = dims.values(b.shape, dict(case.env)), case.seed + crc32(b.name.encode())
        of_kind = Distribution.SMALL if b.name in f.outputs else kind
        x = values.array(seed, b.dtype, shape, None, of_kind)
        if b.name in wanted:
            x = values.mixed_in(x, b.dtype, wanted[b.name], SHARE, seed)
        found.append(x)
    return found


def corners(f: PrimFunc) -> dict[str, tuple[float, ...]]:
    """Return values for each buffer at which operations that read its elements change course."""
    found: dict[str, dict[float, None]] = {}

    def add(e: Expr, kit: kits.Kit) -> None:
        if isinstance(e, Load) and kit:
            found.setdefault(e.buffer, {}).update(dict.fromkeys(kit))

    for e in (e for g in (f, *f.functions) for e in exprs(g.body)):
        match e:
            case Cast(arg, dtype):
                add(arg, kits.converted(arg.dtype, dtype))
            case Binary(op, lhs, rhs):
                add(lhs, kits.combined(op, 0, lhs.dtype))
                add(rhs, kits.combined(op, 1, rhs.dtype))
            case _:
                pass
    return {name: tuple(kit) for name, kit in found.items()}


def _on_engine(
    found: Judged,
    f: PrimFunc,
    text: KernelText,
    engine: Engine,
    before: Sequence[Array],
    want: Sequence[Array],
    env: Mapping[str, int],
    loose: Mapping[str, float],
) -> None:
    """Launch a kernel on an engine and compare its outputs."""
    try:
        got = launched(text, engine, before, env)
    except KernelFault as e:
        found.findings.append(Finding(engine.name, f.name, "fault", str(e)))
        return
    except Exception as e:
        message = f"{type(e).__name__}: {e}"
        found.findings.append(Finding(engine.name, f.name, "error", message))
        return
    for b, a, g in zip(f.params, want, got, strict=True):
        wrong = differing(a, g, b.dtype, loose.get(b.name, 0.0))
        found.total += a.size
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            found.findings.append(
                Finding(
                    engine.name, b.name, "value",
                    f"{b.name}[{at}] = {g[at]!r}, want {a[at]!r}; {int(wrong.sum())} of {a.size} "
                    "elements differ",
                )
            )  # fmt: skip


def launched(
    text: KernelText, engine: Engine, before: Sequence[Array], env: Mapping[str, int]
) -> list[Array]:
    """Launch the one kernel of a text on new buffers; return what its parameters hold after."""
    (s,) = text.kernels
    buffers = [engine.upload(a) for a in before]
    try:
        engine.load(text).launch(s.name, buffers, env)
        dtypes = [d for _, d in s.buffers]
        return [
            engine.download(b, d, a.shape) for b, d, a in zip(buffers, dtypes, before, strict=True)
        ]
    finally:
        for b in buffers:
            engine.free(b)


def tolerances(f: PrimFunc) -> dict[str, float]:
    """Return the outputs whose last step is inexact, with the ulps that two of them may differ."""
    contract = Contract()
    found: dict[str, float] = {}
    for s in stmts(written_out(expand(f)).body):
        if isinstance(s, Store) and (name := inexact(s.value)):
            found[s.buffer] = 2 * contract.of(name, s.value.dtype)
    return found


def differing(want: Array, got: Array, dtype: DType, ulps: float) -> Array:
    """Return which elements are not the same number; any NaN is as good as another."""
    bits = np.dtype(f"u{dtype.nbytes}")
    same = want.view(bits) == got.view(bits)
    if not dtype.is_float:
        return np.asarray(~same)
    a, b = (x.astype(dtype.compute.numpy) for x in (want, got))
    same |= np.isnan(a) & np.isnan(b)
    if ulps:
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= ulps * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        same |= near & (np.signbit(a) == np.signbit(b))
    return np.asarray(~same)
