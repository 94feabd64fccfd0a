"""A graph that is drawn around something: values of chosen types, and ops on chosen operands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.values import FOCUSED, corners
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.attributes import AttrSpec
from didyma.refimpl.ops.spec import Sample
from didyma.refimpl.verify.graph import check_ends

# Sizes of the axes of one shape all differ, since equal ones hide a swap.
_SIZES = (3, 4, 2, 5, 8, 7, 6, 1, 12, 16, 9, 20, 33, 0)
_RANKS = (2, 1, 3, 2, 3, 1, 4, 2, 0, 3, 5)
_USUAL = 384  # elements of a value that is drawn
NO_CHOICE: Mapping[str, str] = MappingProxyType({})
TRIES = 6  # at a sample that fits
TWICE = 12  # one symbol in so many may be the size of another axis, too


@dataclass
class Sketch:
    """A graph under construction, and the decisions by which it is drawn.

    ``given`` are values of parameters that no seed is to draw, and ``changes`` options, by path,
    that the graph is meant for.
    """

    b: GraphBuilder
    c: Chooser
    given: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    changes: dict[str, Any] = field(default_factory=dict[str, Any])

    def types(self) -> dict[str, TensorType]:
        """Return the types of all values so far."""
        return dict(self.b.pool)

    # ---- types

    def dtype(self, dtypes: Sequence[DType]) -> DType:
        """Draw one of some dtypes, f32 in a quarter of all draws if it is one of them."""
        if DType.F32 in dtypes and self.c.chance(4):
            return DType.F32
        return self.c.pick(dtypes)

    def shape(self, least: int = 0, most: int = 5) -> tuple[Dim, ...]:
        """Draw a shape with a rank in a range; its axes have different sizes."""
        rank = min(max(self.c.pick(_RANKS), least), most)
        left = list(_SIZES if rank < 4 else _SIZES[:8])
        named = list(self.b.dims)
        found: list[Dim] = []
        numel = 1
        for _ in range(rank):
            if named and self.c.chance(2):
                v = named.pop(self.c.below(len(named)))
                if self.c.chance(TWICE):
                    named.append(v)
                found.append(dims.symbol(v.name))
                numel *= max(1, self.b.env[v.name])
                continue
            fitting = [n for n in left if n * numel <= self.most()] or [1]
            # Zero and the larger sizes come last, and are drawn less often.
            at = min(self.c.below(len(fitting)), self.c.below(len(fitting)))
            n = fitting[at]
            numel *= max(1, n)
            found.append(n)
            if n in left:
                left.remove(n)
        return tuple(found)

    def most(self) -> int:
        """Return how many elements a drawn value may have."""
        return max(_USUAL, self.b.most_elements // 4)

    def type(self, dtypes: Sequence[DType], least: int = 0, most: int = 5) -> TensorType:
        """Draw a type of one of some dtypes, with a rank in a range."""
        return TensorType(self.dtype(dtypes), self.shape(least, most))

    # ---- values

    def param(self, t: TensorType) -> str | None:
        """Add a parameter whose values suit the ops that read it; None if there are enough."""
        if len(self.b.params) >= self.b.most_params or not self.b.fits(t):
            return None
        if not self.b.bindable(t):
            return None
        name = self.b.param(t, self.c)
        self.b.seeds[-1] += FOCUSED
        return name

    def bind_symbols(self) -> None:
        """Add a parameter for each symbol that has it as a size."""
        if self.b.dims:
            shape = tuple(dims.symbol(v.name) for v in self.b.dims)
            self.b.param(TensorType(self.dtype((DType.F32, DType.I32, DType.F16)), shape), self.c)
            self.b.seeds[-1] += FOCUSED

    def value(self, t: TensorType) -> str | None:
        """Return a value of a type: a parameter, a constant, or one that is there already."""
        have = [name for name, u in self.b.pool if u == t]
        kind = self.c.below(8)
        if have and kind < 2:
            return self.c.pick(have)
        if kind == 2 and not dims.free(t.shape):
            return self.constant(t)
        made = self.param(t)
        if made is not None:
            return made
        if have:
            return self.c.pick(have)
        return None if dims.free(t.shape) or not self.b.fits(t) else self.constant(t)

    def start(self, dtypes: Sequence[DType], least: int = 0, most: int = 5) -> str | None:
        """Return a value of one of some dtypes to begin with, mostly a new parameter."""
        if self.c.chance(4):
            have = [n for n, t in self.b.pool if t.dtype in dtypes and least <= t.rank <= most]
            if have:
                return self.c.pick(have)
        return self.param(self.type(dtypes, least, most))

    def constant(self, t: TensorType) -> str:
        """Add a constant with axes, whose elements differ, or a splat of one corner."""
        if self.c.chance(4):
            have = corners(t.dtype)
            return self.splat(have[self.c.below(have.size)], t)
        return self.b.constant(t, self.c)

    def splat(self, value: Array, t: TensorType) -> str:
        """Add a constant of a static type that has one value everywhere."""
        shape = tuple(int(d) for d in t.shape if isinstance(d, int))
        full = Tensor.of(np.broadcast_to(np.asarray(value).astype(t.dtype.numpy), shape))
        return self.b.op("constant", (), t, value=full)

    # ---- ops

    def result(self, op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType | None:
        """Return the type of a result; None if the operands do not fit or it is too large."""
        try:
            t = OPS[op].infer(types, dict(attrs))
            check_ends(OPS[op], attrs, types, self.b.sizes)
        except DidymaError:
            return None
        return t if self.b.fits(t) else None

    def apply(self, op: str, args: Sequence[str], attrs: Attrs = ()) -> str | None:
        """Add an op on values; None if they do not fit."""
        have = self.types()
        t = self.result(op, [have[a] for a in args], attrs)
        return None if t is None else self.b.op(op, args, t, **dict(attrs))

    def sampled(self, op: str, t: TensorType) -> Sample | None:
        """Draw a use of an op on an operand of a type whose result fits."""
        sample = OPS[op].sample(self.c, t)
        if sample is None or self.result(op, sample.operands, sample.attrs) is None:
            return None
        return sample

    def use(self, op: str, sample: Sample, focus: str = "") -> str | None:
        """Add a use of an op; one of the operands of the focus's type is the focus."""
        have = self.types()
        places = [i for i, t in enumerate(sample.operands) if have.get(focus) == t]
        place = self.c.pick(places) if places else -1
        args = [focus if i == place else self.value(t) for i, t in enumerate(sample.operands)]
        return self.apply(op, [a for a in args if a], sample.attrs) if all(args) else None

    def on(self, op: str, focus: str, choice: Mapping[str, str] = NO_CHOICE) -> str | None:
        """Add a use of an op on a value, with some attributes given; None if none fits."""
        t = self.types()[focus]
        for _ in range(TRIES):
            sample = self.sampled(op, t)
            if sample is not None and choice:
                sample = replace(sample, attrs=_with(sample.attrs, choice))
            if sample is not None and t in sample.operands:
                return self.use(op, sample, focus)
        return None

    def first_on(self, ops: Iterable[str], focus: str) -> str | None:
        """Add the first of some ops that can be used on a value."""
        made = (self.on(op, focus) for op in ops)
        return next((m for m in made if m is not None), None)

    def near(self, of: str) -> str | None:
        """Add a node that differs from the one that defines a value in one attribute, a little."""
        n = next((n for n in self.b.nodes if of in n.results), None)
        specs = OPS[n.op].attrs if n is not None and n.op in OPS else ()
        for _ in range(TRIES if specs else 0):
            assert n is not None
            spec = self.c.pick(specs)
            changed = nearly(self.c, spec, n.attr[spec.name])
            if changed is not None and changed != n.attr[spec.name]:
                made = self.apply(n.op, n.args, freeze({**n.attr, spec.name: changed}))
                if made is not None:
                    return made
        return None


def _with(have: Attrs, choice: Mapping[str, str]) -> Attrs:
    named: dict[str, Attr] = dict(have)
    for name, word in choice.items():
        named[name] = word == "true" if word in ("true", "false") else word
    return freeze(named)


def nearly(c: Chooser, spec: AttrSpec, value: Attr) -> Attr | None:
    """Return an attribute that differs a little: by one, in its order, in its last bit."""
    match value:
        case bool():
            return not value
        case int():
            return value + c.pick((1, -1))
        case Tensor():
            return _other_element(c, value)
        case tuple():
            return _other_tuple(c, value)
        case _:
            return c.pick(spec.choices) if spec.choices else None


def _other_tuple(c: Chooser, value: tuple[Attr, ...]) -> Attr:
    if len(value) > 1 and c.chance(2):
        i = c.below(len(value) - 1)
        return (*value[:i], value[i + 1], value[i], *value[i + 2 :])
    if not value:
        return (0,)
    i = c.below(len(value))
    entry = value[i]
    if isinstance(entry, int):
        return (*value[:i], entry + c.pick((1, -1)), *value[i + 1 :])
    return (*value[:i], *value[i + 1 :])


def _other_element(c: Chooser, value: Tensor) -> Attr | None:
    if not value.data:
        return None
    at = c.pick((0, len(value.data) - 1))  # the lowest bit of the first, the sign of the last
    data = bytearray(value.data)
    data[at] ^= 1 if value.dtype is DType.BOOL or not at else 0x80
    return Tensor(value.dtype, value.shape, bytes(data))
