"""ONNX Runtime as a peer: it runs models, and modules that are expressed in what it has.

It has kernels for some element types of some operators.  A module is expressed with these: what
lacks a kernel is computed in a wider type, and cast back.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import onnx

from didyma.onnx.export import to_model
from didyma.onnx.export.dialect import Allowed, Dialect, type_name
from didyma.oracle.compare import Comparison, compare, distance
from didyma.oracle.report import Finding, Level
from didyma.oracle.stages import due, exact, guard
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import CALL, RESHAPE_ONLY, Function, Module, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops.bars import LEAST, Bar, Contract

NAME = "onnxruntime"
# It states nothing of itself: sums in any order, intrinsics good to a few places.
CONTRACT = Contract(default_ulp=16.0)
_PROVIDER = "CPUExecutionProvider"
# types that its Python interface does not take: NumPy has them from elsewhere
_FOREIGN = frozenset(d for d in ALL if d.numpy.isbuiltin != 1)

# What a kernel says that it takes, and then refuses.
_REFUSED: Mapping[str, frozenset[DType]] = {"ScatterElements": frozenset({DType.F16})}


class _Kernel(Protocol):
    op_name: str
    domain: str
    provider: str
    version_range: tuple[int, int]
    type_constraints: Mapping[str, Sequence[str]]


def _runtime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError as e:
        raise EngineMissing(
            "engine-missing", f"--peer {NAME}", got=f"onnxruntime cannot be imported: {e}",
            want="the package onnxruntime", help="python3 -m pip install onnxruntime",
        ) from None  # fmt: skip


def require() -> None:
    """Raise EngineMissing unless ONNX Runtime can run here."""
    _runtime()


def kernels() -> Dialect:
    """Return ONNX as ONNX Runtime's CPU kernels have it."""
    _runtime()
    state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    table: dict[str, list[_Kernel]] = defaultdict(list)
    for k in cast("Sequence[_Kernel]", state.get_all_opkernel_def()):
        if k.provider == _PROVIDER and not k.domain:
            table[k.op_name].append(k)
    names = {type_name(d): d for d in ALL}

    def narrow(op: str, since: int, allowed: Allowed) -> Allowed:
        own = [k for k in table[op] if k.version_range[0] <= since <= k.version_range[1]]
        found: dict[str, frozenset[DType]] = {}
        for variable, dtypes in allowed.items():
            stated = [k.type_constraints.get(variable) for k in own]
            if any(s is None for s in stated):
                found[variable] = dtypes
                continue
            have = {names[t] for s in stated for t in s or () if t in names}
            found[variable] = dtypes & have - _REFUSED.get(op, frozenset())
        return found if own else allowed  # by a function of ONNX's, or not at all

    return Dialect(narrow)


def run_model(model: onnx.ModelProto | bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """Run a model on named inputs; DidymaError ``peer-refused`` if it will not."""
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = model if isinstance(model, bytes) else model.SerializeToString()
    try:
        session = runtime.InferenceSession(data, options, providers=[_PROVIDER])
        return [np.asarray(a) for a in session.run(None, dict(inputs))]
    except Exception as e:  # its exceptions have no common base but this
        text = " ".join(str(e).split())[:300]
        raise DidymaError("peer-refused", NAME, got=text, want="a model that it runs") from None


def level(
    m: Module,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    model: bytes | None = None,
    dialect: Dialect | None = None,
) -> Level:
    """Judge its results by the accumulated bars of a module, under CONTRACT.

    It runs the model that the module was imported from, or else the module expressed for it.  The
    sign of a zero is left free: its choice between two values does not keep it.
    """
    found = Level(NAME, subject=NAME)
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        guard(found, NAME, lambda: _judge(found, m, inputs, env, model, dialect))
    found.seconds = time.perf_counter() - start
    return found


def takes(m: Module, inputs: Sequence[Array], model: bytes) -> bool:
    """Tell whether it runs the model that a module was imported from on some inputs."""
    try:
        _run(m, inputs, model)
    except DidymaError:
        return False
    return True


def _run(m: Module, inputs: Sequence[Array], model: bytes) -> list[Array]:
    return run_model(model, {p.name: a for p, a in zip(m.entry.params, inputs, strict=True)})


def _judge(
    found: Level,
    m: Module,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    model: bytes | None,
    dialect: Dialect | None,
) -> None:
    f = m.entry
    outs = run_module(m, inputs, dialect) if model is None else _run(m, inputs, model)
    given = [exact(a) for a in inputs]
    _compare(found, f, graph.told(f, m, given, env, CONTRACT, stored=True), outs)
    with suppress(DidymaError):  # what float64 decides may bind a size out of its range
        wanted = graph.reference(m, inputs, env)
        found.comparisons += [distance(*pair) for pair in zip(wanted, outs, strict=True)]


def _compare(
    found: Level, f: Function, wanted: Sequence[graph.Told], outs: Sequence[Array]
) -> None:
    for name, told, out, open_type in zip(f.results, wanted, outs, f.result_types(), strict=True):
        bar, t = told.bar, open_type.with_shape(*told.bar.c.shape)
        if not told.sure and out.shape != bar.c.shape:
            found.comparisons.append(Comparison(0, bar.c.size, 0.0))
            continue
        if t.dtype.is_float:
            bar = Bar(bar.c, np.maximum(bar.e, LEAST))
        c = compare(name, bar, out, t)
        found.comparisons.append(c)
        if not c.agree:
            found.findings.append(Finding(found.name, f.name, "value", c.message))


def by_kernel(m: Module, inputs: Sequence[Array], env: Mapping[str, int]) -> Level:
    """Judge it on each Primitive of a fused module alone, on the reference's own operands.

    End to end, bars grow with the depth of a model until they decide nothing; these do not.
    """
    found = Level(f"{NAME}, by kernel", subject=NAME)
    start = time.perf_counter()
    dialect = kernels()
    table = {f.name: f for f in m.functions}
    uses: Counter[str] = Counter()

    def visit(
        _: Function, n: Node, args: list[Array], bound: Mapping[str, int], run: graph.Run
    ) -> Sequence[Array]:
        if n.op == CALL and RESHAPE_ONLY not in table[n.callee].attr:
            uses[n.callee] += 1
            if due(uses[n.callee]):
                alone = Module((replace(table[n.callee], attrs=()),), m.dims)
                guard(found, n.callee, partial(_kernel, found, alone, args, dict(bound), dialect))
            else:
                found.unjudged += 1
        return run()

    with suppress(DidymaError):  # what the reference refuses, the levels before have judged
        graph.walk(m, inputs, visit, env)
    found.seconds = time.perf_counter() - start
    return found


def _kernel(
    found: Level, m: Module, args: Sequence[Array], env: Mapping[str, int], dialect: Dialect
) -> None:
    """Judge one kernel; what it will not run, or has no kernel for, is no disagreement."""
    f = m.entry
    fixed = concrete(m, env)
    try:
        outs = run_module(fixed, args, dialect)
    except DidymaError as e:
        if e.code not in ("peer-refused", "onnx-inexpressible"):
            raise
        found.comparisons += [
            Comparison(0, int(dims.evaluate(t.numel, env)), 0.0) for t in f.result_types()
        ]
        return
    given = [exact(a) for a in args]
    _compare(found, f, graph.told(f, m, given, env, CONTRACT, stored=True), outs)


def concrete(m: Module, env: Mapping[str, int]) -> Module:
    """Return a module of one function with numbers for its sizes."""
    f = m.entry
    nodes = tuple(
        replace(n, types=_fixed(n.types, env), attrs=freeze(graph.concrete_attrs(n, env)))
        for n in f.nodes
    )
    params = tuple(Param(p.name, _fixed((p.type,), env)[0]) for p in f.params)
    return Module((replace(f, params=params, nodes=nodes),))


def _fixed(types: Sequence[TensorType], env: Mapping[str, int]) -> tuple[TensorType, ...]:
    return tuple(t.with_shape(*dims.values(t.shape, env)) for t in types)


def run_module(m: Module, inputs: Sequence[Array], d: Dialect | None = None) -> list[Array]:
    """Run a module on the inputs of its entry.

    Errors: ``peer-refused``, ``onnx-inexpressible`` where it has no kernel.
    """
    dressed = dress(m)
    params = dressed.entry.params
    given = {p.name: a.astype(p.type.dtype.numpy) for p, a in zip(params, inputs, strict=True)}
    found = run_model(to_model(dressed, d or kernels()), given)
    types = m.entry.result_types()
    return [a.astype(t.dtype.numpy) for a, t in zip(found, types, strict=True)]


def dress(m: Module) -> Module:
    """Return a module whose parameters and results of foreign types go in and out as f32."""
    f = m.entry
    types = f.types()
    params: list[Param] = []
    before: list[Node] = []
    for p in f.params:
        if p.type.dtype in _FOREIGN:
            outer = f"{p.name}_f32"
            params.append(Param(outer, p.type.with_dtype(DType.F32)))
            before.append(_cast(p.name, outer, p.type))
        else:
            params.append(p)
    after: list[Node] = []
    results: list[str] = []
    for i, r in enumerate(f.results):
        if types[r].dtype in _FOREIGN:
            after.append(_cast(f"{r}_f32_{i}", r, types[r].with_dtype(DType.F32)))
            results.append(after[-1].results[0])
        else:
            results.append(r)
    entry = Function(f.name, tuple(params), (*before, *f.nodes, *after), tuple(results), f.attrs)
    return replace(m, functions=(*m.functions[:-1], entry))


def _cast(to: str, of: str, t: TensorType) -> Node:
    return Node((to,), "cast", (of,), (t,), (("dtype", t.dtype),))
