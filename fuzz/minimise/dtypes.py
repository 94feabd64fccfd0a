"""Replace the dtypes of a case by the usual ones, f32 and i32, where the disagreement stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.retype import Retype, converted, rewritten
from didyma.fuzz.minimise.search import Search, greedy
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType, Tensor
from didyma.refimpl.verify.graph import verify

_SIMPLEST = (DType.F32, DType.I32)  # the simplest first


def shrink_dtypes(case: Case) -> Search[Case]:
    """Yield cases of simpler dtypes, greedily: one dtype becomes another wherever it stands."""
    return greedy(case, _simpler)


def _simpler(case: Case) -> Iterator[Case]:
    m = case.module
    types = [p.type for f in m.functions for p in f.params]
    types += [t for f in m.functions for n in f.nodes for t in n.types]
    for old in sorted({t.dtype for t in types} - {DType.BOOL}):
        simplest = _SIMPLEST[: _SIMPLEST.index(old)] if old in _SIMPLEST else _SIMPLEST
        for new in simplest:
            if not (old.is_float and new.is_int):
                yield from _with_dtype(case, old, new)


def _with_dtype(case: Case, old: DType, new: DType) -> Iterator[Case]:
    """Yield the case with one dtype in the place of another, if that is valid."""
    m = rewritten(case.module, Retype(dtype=lambda d: new if d is old else d))
    if m is None:
        return
    try:
        verify(m)
    except DidymaError:
        return
    rows = zip(m.entry.params, case.inputs(), strict=True)
    values = ((p, converted(x, p.type.dtype)) for p, x in rows)
    yield replace(case, module=m, given=tuple((p.name, Tensor.of(x)) for p, x in values))
