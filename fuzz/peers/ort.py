"""ONNX Runtime as a peer: it runs ONNX models, and modules exported with the kernels that it has.

It has kernels for some element types of some operators.  A node without a kernel for its type is
exported in a wider type, between casts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import onnx

from didyma.fuzz.peers.registry import ONNXRUNTIME
from didyma.onnx.export import to_model
from didyma.onnx.export.dialect import Allowed, Dialect, type_name
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.graph import Function, Module, Node, Param
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops.bars import Contract

_PROVIDER = "CPUExecutionProvider"
# Dtypes that its Python interface does not take, because they are not NumPy's own.
_FOREIGN = frozenset(d for d in ALL if d.numpy.isbuiltin != 1)

# Dtypes that a kernel declares, and refuses when it runs.
_REFUSED: Mapping[str, frozenset[DType]] = {"ScatterElements": frozenset({DType.F16})}


class _Kernel(Protocol):
    op_name: str
    domain: str
    provider: str
    version_range: tuple[int, int]
    type_constraints: Mapping[str, Sequence[str]]


class OnnxRuntime:
    """ONNX Runtime on the CPU, with one thread; EngineMissing unless it is installed.

    It documents no precision: it may add in any order, and intrinsics may be off by 16 ulp.
    """

    name = ONNXRUNTIME
    contract = Contract(default_ulp=16.0)

    def __init__(self) -> None:
        _runtime()

    @cached_property
    def _dialect(self) -> Dialect:
        return kernels()

    def run(
        self, m: Module, inputs: Sequence[Array], model: bytes | None = None
    ) -> Sequence[Array]:
        """Run the ONNX model, or else the module, exported for the kernels that there are.

        DidymaError ``peer-refused``, ``onnx-inexpressible``.
        """
        if model is None:
            return run_module(m, inputs, self._dialect)
        return run_model(model, {p.name: a for p, a in zip(m.entry.params, inputs, strict=True)})


def _runtime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError as e:
        raise EngineMissing(
            "engine-missing", f"peer {ONNXRUNTIME}", got=f"onnxruntime cannot be imported: {e}",
            want="the package onnxruntime", help="python3 -m pip install onnxruntime",
        ) from None  # fmt: skip


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
        got, want = " ".join(str(e).split())[:300], "a model that it runs"
        raise DidymaError("peer-refused", ONNXRUNTIME, got=got, want=want) from None


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
