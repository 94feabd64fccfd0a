"""FlashInfer-Trace, which SOL-ExecBench shares: definitions, workloads, solutions, evaluations.

Source of the format: S. Xing et al., *FlashInfer-Bench*, 2026: a definition has axes that are
constant or variable, tensors whose shapes name axes, and a reference ``run(inputs…)`` in PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from didyma.judging.outcome import Outcome
from didyma.judging.pytorch import program_of, torch_or_raise
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir.types import DType
from didyma.tracer.tracing import Program

DTYPES: Mapping[str, DType] = {
    "float32": DType.F32, "float16": DType.F16, "bfloat16": DType.BF16, "int64": DType.I64,
    "int32": DType.I32, "int16": DType.I16, "int8": DType.I8, "bool": DType.BOOL,
    "float8_e4m3fn": DType.F8E4M3, "float8_e5m2": DType.F8E5M2, "float4_e2m1": DType.F4E2M1,
}  # fmt: skip
_EXAMPLE = 8  # the size of a variable axis of which no workload tells one
_STATUS = {
    Outcome.CORRECT: "PASSED",
    Outcome.WRONG: "INCORRECT_NUMERICAL",
    Outcome.DIFFERENT: "INCORRECT_NUMERICAL",
    Outcome.CANNOT_TELL: "INCORRECT_NUMERICAL",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a definition: its axes, each a name; none of a scalar."""

    axes: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition: constant axes with their values, variable ones, tensors and the reference."""

    name: str
    constants: Mapping[str, int]
    variables: tuple[str, ...]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    reference: str


def is_definition(found: object) -> bool:
    """Return whether a JSON document is a definition."""
    return isinstance(found, dict) and {"axes", "inputs", "outputs", "reference"} <= {*found}


def read(path: Path) -> Definition:
    """Read a definition; DidymaError ``unreadable-file``, ``bad-spec``."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=reason(e), want="a definition") from e
    except ValueError as e:
        raise DidymaError("bad-spec", str(path), got=str(e), want="JSON") from None
    if not is_definition(found):
        raise DidymaError(
            "bad-spec", str(path), got="JSON of another kind",
            want="a definition with axes, inputs, outputs and reference",
        )  # fmt: skip
    return _definition(cast("dict[str, Any]", found), path)


def _definition(found: dict[str, Any], path: Path) -> Definition:
    axes: dict[str, dict[str, Any]] = found["axes"]
    constants = {k: int(a["value"]) for k, a in axes.items() if a["type"] == "const"}
    variables = tuple(k for k in axes if k not in constants)

    def tensors(rows: Mapping[str, Any]) -> dict[str, Tensor]:
        return {k: _tensor(k, row, axes, path) for k, row in rows.items()}

    return Definition(
        str(found["name"]), constants, variables, tensors(found["inputs"]),
        tensors(found["outputs"]), str(found["reference"]),
    )  # fmt: skip


def _tensor(name: str, row: Mapping[str, Any], axes: Mapping[str, Any], path: Path) -> Tensor:
    shape: Sequence[str] = row.get("shape") or ()
    unknown = [a for a in shape if a not in axes]
    if row.get("dtype") not in DTYPES or unknown:
        raise DidymaError(
            "bad-spec", f"{path}: {name}", got=f"{row.get('dtype')} of axes {', '.join(shape)}",
            want=f"a dtype of {', '.join(DTYPES)} and axes of {', '.join(axes)}",
        )  # fmt: skip
    return Tensor(tuple(shape), DTYPES[row["dtype"]])


def load(path: Path) -> Program:
    """Return the program of a definition, whose variable axes are symbolic sizes.

    Constant axes keep their sizes.  DidymaError ``extra-missing`` without PyTorch, ``bad-spec``.
    """
    d = read(path)
    torch = torch_or_raise(str(path))
    space: dict[str, Any] = {"__name__": d.name}
    try:
        exec(compile(d.reference, f"{path}: reference", "exec"), space)
    except Exception as e:
        got = f"{type(e).__name__}: {e}"
        raise DidymaError("bad-spec", str(path), got=got, want="a reference that runs") from e
    if "run" not in space:
        raise DidymaError("bad-spec", str(path), got="no function run", want="run(inputs…)")
    sizes = {**dict.fromkeys(d.variables, _EXAMPLE), **d.constants}
    kinds = {v: k for k, v in DTYPES.items()}
    examples = {
        name: torch.zeros([sizes[a] for a in t.axes], dtype=getattr(torch, kinds[t.dtype]))
        for name, t in d.inputs.items()
    }
    axes = {n: [a if a in d.variables else None for a in t.axes] for n, t in d.inputs.items()}
    return program_of(space["run"], examples, str(path), sizes=axes if d.variables else None)


def workloads(path: Path, d: Definition) -> dict[str, tuple[int, ...]]:
    """Return the sizes of variable axes in the workloads of a definition, in JSON lines."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8-sig").splitlines() if line]
    own = [r["workload"]["axes"] for r in rows if r["definition"] == d.name]
    return {v: tuple(sorted({int(a[v]) for a in own})) for v in d.variables}


def evaluation(record: Mapping[str, Any], definition: str, solution: str) -> dict[str, Any]:
    """Return the trace of a record of ``didyma judge --json``: one of the format's JSON lines.

    It has no workload, because the judge draws sizes and values of its own.
    """
    kinds = {f["kind"] for f in record["findings"]}
    ended = kinds.isdisjoint(("hang", "trap", "assert"))
    status = _STATUS[Outcome(record["verdict"])] if ended else "RUNTIME_ERROR"
    reasons = [f"{f['kind']}: {f['detail']}" for f in record["findings"]][:1]
    reasons += [f"cannot tell the answer from {a}" for a in record["cannot_tell"]]
    return {
        "definition": definition,
        "solution": solution,
        "workload": None,
        "evaluation": {"status": status, "log": "; ".join(reasons)},
    }
