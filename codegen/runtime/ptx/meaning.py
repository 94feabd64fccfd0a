"""What a kernel's constants and functions of the device's library mean in the ring.

A compiler writes functions such as ``expf`` in line, as polynomials and bits of floats, of which
the ring knows nothing.  So texts of CUDA C++ are compiled with ``HEADER`` for the ring, by which
they call functions that the engine brings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.code import Slot
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.loop import BINARY_OPS, INTRINSICS, BinaryOp
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring, ring_rules
from didyma.refimpl.ops.ring import UNKNOWN, Payload

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_ONE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
)  # fmt: skip
_TWO: Mapping[str, str] = {"pow": "pow", "atan2": "atan2", "fmod": "truncmod"}
_BINARY: Mapping[str, BinaryOp] = {op: op for op in BINARY_OPS}
_PREFIX = "didyma_ring_"
_DTYPES: Mapping[str, DType] = {"float": DType.F32, "double": DType.F64}
_SHORT = 12  # binary digits of a number that is taken for a count, a half or their like
# By bytes: numbers whose addition rounds another to a whole one, so that their sum is no sum.
_MAGIC: Mapping[int, tuple[float, float]] = {
    4: (2.0**22, 2.0**25), 8: (2.0**51, 2.0**54)
}  # fmt: skip
_LOG2_E = float(ring_rules.LOG2_E)
with np.errstate(all="ignore"):
    _LN2 = ring.divide(ring.UNIT, ring.embed(ring_rules.LOG2_E))
_FAR = -(2.0**25)  # in place of an infinity: no other exponent is as far from 0


def _header() -> str:
    """Return declarations of the functions, and macros that put them in place of CUDA's."""
    rows = ["#pragma once"]
    for name in (*_ONE, *_TWO):
        count = 1 if name in _ONE else 2
        for c, dtype in _DTYPES.items():
            own = f"{_PREFIX}{name}_{dtype.value}"
            rows.append(f'extern "C" __device__ {c} {own}({", ".join([c] * count)});')
            given = ", ".join(f"{c} {v}" for v in "xy"[:count])
            rows.append(
                f"static __device__ inline {c} {_PREFIX}{name}({given}) "
                f"{{ return {own}({', '.join('xy'[:count])}); }}"
            )
        if count == 2:
            rows += [
                f"static __device__ inline {to} {_PREFIX}{name}({a} x, {b} y) "
                f"{{ return {_PREFIX}{name}(({to})x, ({to})y); }}"
                for a, b, to in (("float", "int", "float"), ("float", "double", "double"),
                                 ("double", "float", "double"), ("double", "int", "double"))
            ]  # fmt: skip
        rows.append(f"namespace std {{ using ::{_PREFIX}{name}; }}")
        rows.append(f"#define {name} {_PREFIX}{name}\n#define {name}f {_PREFIX}{name}_f32")
    rows.append(f"#define __powf {_PREFIX}pow_f32")
    return "\n".join(rows) + "\n"


HEADER = _header()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What constants mean: themselves, or, of those with many digits, what is ``known`` of them.

    ``known`` has payloads by the significand, a number from 0.5 to 1; None where all are
    themselves.
    A text that is not Didyma's own may have numbers that its author or a compiler has computed,
    such as the coefficients of a polynomial, which tell nothing.
    """

    known: Mapping[float, Payload] | None = None

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Meaning:
        """Return the meaning of a text that is to compute what a reference with these numbers does.

        >>> m = Meaning.of([0.1])
        >>> bool(m.constant(np.float32(0.2)) == ring.embed(np.float32(0.2)))
        True
        >>> bool(m.constant(np.float32(0.3)) == UNKNOWN), bool(m.constant(np.float32(3)) == UNKNOWN)
        (True, False)
        """
        with np.errstate(all="ignore"):
            rows = [(abs(float(np.float32(x))), None) for x in numbers]
            rows += [(_LOG2_E, None), (float(np.float32(math.log(2))), _LN2)]
            known: dict[float, Payload] = {}
            for x, p in rows:
                if 0 < x < math.inf:
                    size, exponent = math.frexp(x)
                    known[size] = _scaled(ring.embed(x) if p is None else p, -exponent)
        return cls(known)

    def constant(self, value: Any) -> Payload:
        """Return the payload of a number that stands in the text, or is passed to the kernel."""
        if self.known is None or value == 0 or not np.isfinite(value):
            return ring.embed(value)
        size, exponent = math.frexp(abs(float(value)))
        if size in self.known:
            p = _scaled(self.known[size], exponent)
            return ring.negate(p) if value < 0 else p
        low, high = _MAGIC.get(np.asarray(value).dtype.itemsize, (math.inf, math.inf))
        if (size * 2**_SHORT) % 1 or low <= abs(value) < high:
            return UNKNOWN
        return ring.embed(value)


def _scaled(p: Payload, exponent: int) -> Payload:
    """Return a payload times a power of two."""
    whole, part = max(exponent, 0), max(-exponent, 0)
    return ring.multiply(p, ring.fraction(2**whole, 2**part))


def exponential(name: str, p: Payload, x: Array, result: Array) -> Payload:
    """Return payloads of ``exp`` or ``exp2``: 0 of what stands for less than any number.

    Such is a number as -1e30 in place of an infinity, of which a text says no more.
    """
    found = ring_rules.unary(name, p, x, result)
    return np.asarray(ring.where((p == UNKNOWN) & (x < _FAR), ring.ZERO, found))


def compile_function(ops: Operands) -> Action | None:
    """Compile a call of a function of ``HEADER``; None for another instruction."""
    name = ops.ins.mods[0] if ops.ins.op == "extern" else ""
    if not name.startswith(_PREFIX):
        return None
    op, _, suffix = name.removeprefix(_PREFIX).rpartition("_")
    dtype = DType(suffix)
    f = _function(op, dtype)
    to, *given = (o.number for o in ops.ins.args if isinstance(o, Slot))
    d, width = dtype.numpy, dtype.nbytes // units.WIDTH

    def run(m: Machine) -> None:
        assert m.shadow is not None
        shadow, rows = m.shadow, list[Any]()
        for k in given:
            v = np.ascontiguousarray(m.slots[k][m.ids, : dtype.nbytes]).view(d)[:, 0]
            found = shadow.of(shadow.slots, k, m.ids)
            u = None if found is None else found[:, :width]
            rows.append(scalar_ring.joined(v, units.payloads(v, u)))
        out = f(*rows)
        value, payload = np.asarray(out["value"]), np.asarray(out["payload"])
        if op in ("exp", "exp2"):
            payload = exponential(op, rows[0]["payload"], rows[0]["value"], value)
        raw = np.ascontiguousarray(value)[:, None].view(np.uint8)
        m.slots[to][m.ids, : dtype.nbytes] = raw
        shadow.set(shadow.slots, to, m.ids, units.made(payload[:, None], dtype), width)

    return run


def _function(op: str, dtype: DType) -> Any:
    if op in _TWO:
        return scalar_ring.binary_fn(_BINARY[_TWO[op]], dtype)
    assert op in INTRINSICS, op
    return scalar_ring.intrinsic_fn(op, dtype)
