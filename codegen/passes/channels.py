"""Give convolutions their channels last in memory, by pieces that tensor cores can be fed with.

A template that computes a convolution as a product copies its windows by pieces of 16 bytes, which
are channels of one place.  So what a convolution reads is stored with the channels last and, if
they make no whole piece, with zeros behind them, which are multiplied by zeros of the weights.
With those come zeros for the border of columns: then what a window has of a line lies together.
Chains of convolutions then are stored so from end to end.  Weights that are constants are stored so
once, when a program is compiled.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from typing import cast as typed

import numpy as np

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.folding import fold
from didyma.codegen.passes.rewriting import Rewriting
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Function, Module, Node, attrs
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import DType, Tensor, TensorType

PIECE = 8  # elements of 16 bits in a piece of 16 bytes
LANES = 16  # neighbours that a core runs together
TERMS = 16  # of a product, for one step of tensor cores
NARROW = frozenset({DType.F16, DType.BF16})
WEIGHTS = "store the weights of a convolution by the channels of its result"
STORED = "store the channels of a convolution last"


def channels_last(m: Module, target: Target, heard: Heard) -> Module:
    """Store what convolutions of 16 bits read with the channels last, if the target has ``mma``.

    A value with its channels last is a permutation that another undoes at once; fusion stores what
    is between the two.  On a core, constant weights are stored with the channels of results last,
    where neighbouring channels are best computed together.
    """
    if not target.in_turn and "mma" not in target.families:
        return m
    rewriting = _Weights if target.in_turn else _Rewriting
    entered = blocks(m)
    functions = (
        rewriting(f, "last", heard=heard).run() if f.name in entered else f for f in m.functions
    )
    return replace(m, functions=tuple(functions))


def last(rank: int) -> tuple[int, ...]:
    """Return the permutation that moves axis 1, the channels, behind all others."""
    return (0, *range(2, rank), 1)


def first(rank: int) -> tuple[int, ...]:
    """Return the permutation that moves the last axis to axis 1."""
    return (0, rank - 1, *range(1, rank - 1))


def is_copy(n: Node, readers: list[Node]) -> bool:
    """Return whether a node is stored as this pass wants it: it is moved back wherever it is read.

    That is a permutation that its readers undo, or channels padded behind the last, and columns on
    both sides.
    """
    rank = n.types[0].rank
    back = {r.op == "permute_dims" and r.attr["axes"] == first(rank) for r in readers}
    if rank < 3 or back != {True}:
        return False
    if n.op == "permute_dims":
        return n.attr["axes"] == last(rank)
    edges = typed("tuple[tuple[Dim, ...], ...]", (n.attr["low"], n.attr["high"]))
    return not any(d for e in edges for d in e[:-2])


class Lack(NamedTuple):
    """The zeros that a value is stored with: channels behind the last, columns on both sides."""

    channels: int = 0
    left: int = 0
    right: int = 0


@dataclass
class _Rewriting(Rewriting):
    """A function under rewriting: what stands in place of values, and what is stored so."""

    heard: Heard = unheard
    instead: dict[str, str] = field(default_factory=dict[str, str])
    made: dict[tuple[str, Lack], str] = field(default_factory=dict[tuple[str, Lack], str])

    def run(self) -> Function:
        types = self.f.types()
        convs = [n for n in self.f.nodes if _suits(n, types)]
        if not convs:
            return self.f
        turned = {n.args[0] for n in convs if not _lack(n, types)}
        for n in self.f.nodes:
            n = replace(n, args=tuple(self.instead.get(a, a) for a in n.args))
            self.add(self.convolution(n) if _suits(n, self.types) else n)
            for r in turned.intersection(n.results):
                self.instead[r] = self.turned(r, Lack())
        return replace(self.f, nodes=tuple(self.nodes))

    def convolution(self, n: Node) -> Node:
        """Return a convolution that reads its operands with the channels last."""
        lack = _lack(n, self.types)
        x, w = n.args
        places = self.types[w].shape[2:]
        if lack or any(d != 1 for d in places):
            w = self.turned(w, Lack(lack))
        self.heard(STORED, n.results[0])
        low, high = n.attr["low"], n.attr["high"]
        assert isinstance(low, tuple)
        assert isinstance(high, tuple)
        left, right = low[-1], high[-1]
        if not lack or not isinstance(left, int) or not isinstance(right, int):
            return replace(n, args=(self.turned(x, Lack(lack)), w))
        beside = {"low": (*low[:-1], 0), "high": (*high[:-1], 0)}
        given = attrs({**n.attr, **beside})
        return replace(n, args=(self.turned(x, Lack(lack, left, right)), w), attrs=given)

    def turned(self, value: str, lack: Lack) -> str:
        """Return a value that is stored with channels last, with zeros for what it lacks."""
        key, n, rank = (value, lack), self.defs.get(value), self.types[value].rank
        if key in self.made:
            return self.made[key]
        if n is not None and n.op == "permute_dims" and n.attr["axes"] == first(rank):
            if not any(lack):
                return value
            near = n.args[0]
        else:
            near = self.packed("permute_dims", value, axes=last(rank))
        if any(lack):
            before, behind = ((*(0,) * (rank - 2), *e)
                              for e in ((lack.left, 0), (lack.right, lack.channels)))  # fmt: skip
            near = self.packed("pad", near, self.zero(value), low=before, high=behind,
                               mode="constant")  # fmt: skip
        self.made[key] = self.op("permute_dims", near, axes=first(rank))
        return self.made[key]

    def packed(self, op: str, *args: str, **given: Attr) -> str:
        """Add a node; of constants it is computed at once, so that no call copies weights."""
        name, known = self.op(op, *args, **given), Values(self.types, self.defs)
        if folded := fold(self.nodes[-1], known, sys.maxsize, sys.maxsize):
            self.nodes[-1] = self.defs[name] = folded
        return name

    def zero(self, like: str) -> str:
        t = self.types[like].with_shape()
        given = attrs({"value": Tensor.of(np.zeros((), t.dtype.numpy))})
        return self.add(Node((self.names.fresh("zero"),), "constant", (), (t,), given))


@dataclass
class _Weights(_Rewriting):
    """A function under rewriting in which weights are stored with the channels of results last."""

    def run(self) -> Function:
        for n in self.f.nodes:
            if _reads_apart(n, self.types) and Values(self.types, self.defs).constant(n.args[1]):
                self.heard(WEIGHTS, n.results[0])
                n = replace(n, args=(n.args[0], self.weights(n.args[1])))
            self.add(n)
        return replace(self.f, nodes=tuple(self.nodes))

    def weights(self, w: str) -> str:
        """Return weights that are stored with axis 0 last."""
        rank, key = self.types[w].rank, (w, Lack())
        if key not in self.made:
            near = self.packed("permute_dims", w, axes=(*range(1, rank), 0))
            self.made[key] = self.op("permute_dims", near, axes=(rank - 1, *range(rank - 1)))
        return self.made[key]


def _reads_apart(n: Node, types: dict[str, TensorType]) -> bool:
    """Return whether neighbours in an image of a convolution read elements that lie apart.

    Then neighbouring channels, which read the same elements, are better run together.  Rows of few
    elements lie together where they are as long as those that are read.
    """
    if n.op != "conv" or n.attr["groups"] != 1 or n.types[0].device:
        return False
    (_, channels, *places), strides = n.types[0].shape, n.attr["strides"]
    assert isinstance(strides, tuple)
    if not isinstance(channels, int) or channels < LANES:
        return False
    run: Dim = 1
    for size, read in zip(places[::-1], types[n.args[0]].shape[::-1], strict=False):
        run = run * size
        if size != read:
            break
    return strides[-1:] != (1,) or (isinstance(run, int) and run < LANES)


def _lack(n: Node, types: dict[str, TensorType]) -> int:
    """Return how many channels a group of a convolution lacks to whole pieces."""
    each = types[n.args[1]].shape[1]
    assert isinstance(each, int)
    return -each % PIECE


def _suits(n: Node, types: dict[str, TensorType]) -> bool:
    """Return whether tensor cores compute a node: a convolution of 16 bits, and large enough."""
    if n.op != "conv" or n.types[0].dtype not in NARROW:
        return False
    out, each, *window = types[n.args[1]].shape
    groups, places = typed("int", n.attr["groups"]), typed("list[int]", window)
    if not (isinstance(out, int) and isinstance(each, int)):
        return False
    terms = each * math.prod(places)
    whole = groups == 1 or each % PIECE == 0
    return whole and out // groups >= PIECE and terms >= TERMS
