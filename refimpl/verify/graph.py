"""The laws of graphs, and those of ``sizes``.

| law | says |
|---|---|
| G-no-function | a module has a function |
| G-function-twice | no two functions have the same name |
| G-value-twice | a name is defined once in a function |
| G-undefined | operands are parameters or results of earlier nodes |
| G-result | a function returns values that it defines |
| G-unknown-op | an op is in the table |
| G-results | an op has one result; every result has a type |
| G-arity | an op has as many operands as its record says |
| G-attr-order | attributes are sorted by name, each given once |
| G-attr-names | a node has the attributes that its op declares, and no others |
| G-attr-kind | an attribute is of its declared kind and among its choices |
| G-attr-data | a constant tensor has as many bytes as its shape says |
| G-type | a node's type is the one its op infers; without operands it may name any device |
| G-callee | a call, and a node that runs functions, names functions above |
| G-call-types | a call's operands and results have the callee's types |
| G-strides | a parameter of the entry or a Primitive function may have strides, inside its memory |
| G-primitive | a Primitive stage folds once, rows along and across, or alike products; none calls |
| G-device | values of a Primitive function are on one device |
| G-reshape-only | a reshape_only function is Primitive, of one operand, and only reshapes |

Those of ``if``, ``while``, ``scan`` and ``bind`` are in ``control``.

An op's own rule may refuse the operands besides: the code is then the op's, such as
``shape-mismatch``.  Symbolic attributes, too, are refused (``bad-attr``) if they are too small at
an end of their dims' ranges.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import sympy

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import graph as ir
from didyma.refimpl.ir.concrete import concrete_attr, concrete_type
from didyma.refimpl.ir.control import attr_symbols
from didyma.refimpl.ir.text import show_node
from didyma.refimpl.ir.text.literals import attr_text
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.attributes import AttrKind, AttrSpec
from didyma.refimpl.ops.spec import Kind, Op
from didyma.refimpl.verify.control import Control, are, broken_law, is_a, is_dim, signature
from didyma.refimpl.verify.sizes import Sizes, binding_text

_FOLDING = (Kind.REDUCTION, Kind.OPAQUE)
_is_int = partial(is_a, int)
_KINDS: Mapping[AttrKind, tuple[Callable[[ir.Attr], bool], str]] = {
    "int": (_is_int, "an integer"),
    "ints": (partial(are, _is_int), "a tuple of integers"),
    "dims": (partial(are, is_dim), "a tuple of sizes"),
    "bool": (partial(is_a, bool), "true or false"),
    "str": (partial(is_a, str), "a string"),
    "dtype": (partial(is_a, DType), "a dtype"),
    "tensor": (partial(is_a, Tensor), "a constant tensor"),
}


def verify(m: ir.Module) -> None:
    """Raise DidymaError at the first broken law."""
    _GraphVerifier(m).module()


class _GraphVerifier:
    def __init__(self, m: ir.Module) -> None:
        self.m = m
        self.sizes = Sizes(m.dims, "module")
        self.known: dict[str, ir.Function] = {}
        self.control = Control(self.known, self.sizes)
        self.checked: set[TensorType] = set()

    def module(self) -> None:
        if not self.m.functions:
            raise broken_law(
                "G-no-function", "no function", "at least one function", where="module"
            )
        for f in self.m.functions:
            if f.name in self.known:
                raise broken_law(
                    "G-function-twice",
                    f"@{f.name} again",
                    "one function of a name",
                    where=f"@{f.name}",
                )
            self.function(f)
            self.known[f.name] = f
        if self.m.dims:
            self.control.symbols(self.m)

    def function(self, f: ir.Function) -> None:
        types: dict[str, TensorType] = {}
        for p in f.params:
            where = f"@{f.name}, %{p.name}"
            self.define(types, p.name, p.type.dense, where)
            if p.type.strides is not None:
                self.strides(f, p.type, where)
        self.attrs(f.attrs, f"@{f.name}")
        for n in f.nodes:
            self.node(f, n, types)
        for r in f.results:
            if r not in types:
                raise broken_law(
                    "G-result", f"%{r}", _defined(types), _near(r, types), where=f"@{f.name}"
                )
        attrs = f.attr
        if ir.PRIMITIVE in attrs:
            self.primitive(f)
            devices = dict.fromkeys(t.device or "the program's own" for t in types.values())
            if len(devices) > 1:
                got = f"values on {' and '.join(devices)}"
                raise broken_law("G-device", got, "values on one device", where=f"@{f.name}")
        if ir.RESHAPE_ONLY in attrs:
            self.reshape_only(f)

    def define(self, types: dict[str, TensorType], name: str, t: TensorType, where: str) -> None:
        if name in types:
            raise broken_law(
                "G-value-twice", f"%{name} again", "one definition of a name", where=where
            )
        if t not in self.checked:
            self.sizes.shape(t.shape, t.dtype, where)
            self.checked.add(t)
        types[name] = t

    def node(self, f: ir.Function, n: ir.Node, types: dict[str, TensorType]) -> None:
        def where() -> str:
            return f"@{f.name}: {show_node(n)}"

        operands: list[TensorType] = []
        for a in n.args:
            if a not in types:
                raise broken_law(
                    "G-undefined", f"%{a}", _defined(types), _near(a, types), where=where()
                )
            operands.append(types[a])
        try:
            self.attrs(n.attrs, "")
            if n.op == ir.CALL:
                self.call(f, n, operands)
            elif n.op in ir.CONTROL:
                self.control.node(n, operands)
            else:
                self.op(n, operands)
            for name, t in zip(n.results, n.types, strict=True):
                self.define(types, name, t, "")
        except DidymaError as e:
            raise DidymaError(e.code, where(), got=e.got, want=e.want, help=e.help) from None

    def attrs(self, attrs: ir.Attrs, where: str) -> None:
        for (a, _), (b, _) in itertools.pairwise(attrs):
            if a >= b:
                raise broken_law(
                    "G-attr-order", f"{b} after {a}", "names in order, each once", where=where
                )
        for _, value in attrs:
            if isinstance(value, (tuple, sympy.Expr)):
                self.sizes.declared([dims.symbol(s) for s in attr_symbols(value)], where)
            if isinstance(value, Tensor):
                _data(value, where)

    def op(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        op = OPS.get(n.op)
        if op is None:
            near = difflib.get_close_matches(n.op, OPS, 3)
            raise broken_law(
                "G-unknown-op",
                n.op,
                "an op that `didyma ops` lists",
                f"did you mean {' or '.join(near)}?" if near else "",
            )
        if len(n.results) != 1 or len(n.types) != 1:
            raise broken_law(
                "G-results",
                f"{counted(len(n.results), 'result')}, {counted(len(n.types), 'type')}",
                "one of each",
            )
        lo, hi = op.arity
        if not lo <= len(operands) <= hi:
            want = counted(lo, "operand") if lo == hi else f"{lo} to {hi} operands"
            raise broken_law("G-arity", f"{counted(len(operands), 'operand')} of {n.op}", want)
        attrs = n.attr
        _check_attrs(op, attrs)
        inferred = op.infer(operands, attrs)
        if not operands:
            inferred = replace(inferred, device=n.types[0].device)
        if inferred != n.types[0]:
            raise broken_law("G-type", str(n.types[0]), str(inferred))
        if n.attrs:
            check_ends(op, n.attrs, operands, self.sizes)

    def strides(self, f: ir.Function, t: TensorType, where: str) -> None:
        """Check law G-strides for a parameter that has strides."""
        assert t.strides is not None
        self.sizes.declared((*t.strides, t.offset), where)
        if f is not self.m.entry and ir.PRIMITIVE not in f.attr:
            want = "row-major order in a function that is neither the entry nor Primitive"
            raise broken_law("G-strides", str(t), want, where=where)
        if len(t.strides) != t.rank or t.dtype.is_packed:
            want = "a stride for each axis, of elements that take whole bytes"
            raise broken_law("G-strides", str(t), want, where=where)
        first, _ = t.reach
        if not dims.at_least(first, 0, self.sizes.ranges):
            got = f"an element {dims.text(first)} behind the beginning of the memory"
            raise broken_law(
                "G-strides", got, "each at least 0 behind it",
                f"negative strides need an offset: {t} offset ...", where=where,
            )  # fmt: skip
        self.sizes.shape(t.memory.shape, t.dtype, where)

    def call(self, caller: ir.Function, n: ir.Node, operands: Sequence[TensorType]) -> None:
        f = self.control.callee(n.attr.get("callee"))
        params, results = tuple(p.type for p in f.params), f.result_types()
        lie = {p.name: p.type for p in caller.params}
        given = [lie.get(a, t) for a, t in zip(n.args, operands, strict=True)]
        # in what order elements lie is no matter of a function that says nothing of it
        fit = [q.strides is None or q == t for q, t in zip(params, given, strict=False)]
        if (
            not all(fit)
            or tuple(operands) != tuple(q.dense for q in params)
            or n.types != results
            or len(n.results) != len(results)
        ):
            raise broken_law(
                "G-call-types",
                f"{counted(len(n.results), 'result')}: {signature(given, n.types)}",
                f"{counted(len(results), 'result')}: {signature(params, results)}",
            )

    def primitive(self, f: ir.Function) -> None:
        calls = [n for n in f.nodes if n.op == ir.CALL or n.op in ir.CONTROL]
        if not _are_stages(f.attr.get(ir.STAGES, ()), len(f.nodes)):
            raise broken_law(
                "G-primitive", f"{ir.STAGES}={attr_text(f.attr[ir.STAGES])}",
                f"positions of nodes in order, from 0 to {len(f.nodes) - 1}", where=f"@{f.name}",
            )  # fmt: skip
        parts = (nodes for _, nodes in ir.stages(f))
        folding = [[n for n in p if n.op in OPS and OPS[n.op].kind in _FOLDING] for p in parts]
        folds = [n for p in folding if not _same_rows(f, p) for n in p]
        if calls or folds or f.attr[ir.PRIMITIVE] != 1:
            wrong = calls or folds
            raise broken_law(
                "G-primitive",
                "; ".join(show_node(n) for n in wrong) or f"{ir.PRIMITIVE}={f.attr[ir.PRIMITIVE]}",
                f"{ir.PRIMITIVE}=1, no call, at most one node that is opaque, several products of "
                "matrices of the same shapes, or several that reduce one shape over the same axes, "
                "or some over these and some over all others",
                where=f"@{f.name}",
            )

    def reshape_only(self, f: ir.Function) -> None:
        others = [n for n in f.nodes if n.op not in OPS or OPS[n.op].kind is not Kind.RESHAPE]
        operands, results = counted(len(f.params), "operand"), counted(len(f.results), "result")
        if others or ir.PRIMITIVE not in f.attr or len(f.params) != 1 or len(f.results) != 1:
            raise broken_law(
                "G-reshape-only",
                "; ".join(show_node(n) for n in others)
                or f"{operands}, {results}, attributes {f.attr}",
                "a Primitive function of one operand and one result that only reshapes",
                where=f"@{f.name}",
            )


def check_ends(op: Op, attrs: ir.Attrs, operands: Sequence[TensorType], sizes: Sizes) -> None:
    """Let an op refuse attributes that are negative at an end of their dims' ranges.

    Errors: those of the op, such as ``bad-attr``.
    """
    values = [x for _, v in attrs if isinstance(v, tuple) for x in v]
    doubtful = [x for x in values if isinstance(x, sympy.Expr) and not dims.never_negative(x)]
    if not doubtful:
        return
    others = {s for _, v in attrs for s in attr_symbols(v)}
    others.update(dims.free([d for t in operands for d in t.shape]))
    largest = {s: sizes.ranges[s][1] for s in others}
    for env in sizes.ends(dims.free(doubtful)):
        whole = largest | env
        try:
            types = [concrete_type(t, whole) for t in operands]
            op.infer(types, {k: concrete_attr(v, whole) for k, v in attrs})
        except DidymaError as e:
            got = f"{e.got} at {binding_text(env)}"
            raise DidymaError(e.code, e.where, got=got, want=e.want, help=e.help) from None


def _defined(types: Iterable[str]) -> str:
    names = [f"%{t}" for t in types]
    return f"a value defined above: {', '.join(names[-8:]) or 'none'}"


def _near(name: str, types: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(types), 1)
    return f"did you mean %{near[0]}?" if near else ""


def _data(t: Tensor, where: str) -> None:
    want = t.type.nbytes
    if min(t.shape, default=0) < 0 or len(t.data) != want:
        raise broken_law(
            "G-attr-data", f"{len(t.data)} bytes", f"{want} bytes for {t.type}", where=where
        )


def _check_attrs(op: Op, attrs: dict[str, ir.Attr]) -> None:
    wanted = {s.name for s in op.attrs}
    if attrs.keys() != wanted:
        raise broken_law(
            "G-attr-names",
            ", ".join(attrs) or "no attributes",
            ", ".join(sorted(wanted)) or "no attributes",
        )
    for spec in op.attrs:
        _check_attr(spec, attrs[spec.name])


def _check_attr(spec: AttrSpec, value: ir.Attr) -> None:
    choice = not spec.choices or (isinstance(value, str) and str(value) in spec.choices)
    fits, kind = _KINDS[spec.kind]
    if not fits(value) or not choice:
        want = f"one of {', '.join(spec.choices)}" if spec.choices else kind
        raise broken_law("G-attr-kind", f"{spec.name}={attr_text(value, elide=True)}", want)


def _are_stages(given: ir.Attr, count: int) -> bool:
    """Return whether an attribute holds increasing positions of so many nodes."""
    if not isinstance(given, tuple):
        return False
    found = [n for n in given if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < count]
    return len(found) == len(given) and found == sorted({*found})


def _same_rows(f: ir.Function, folds: Sequence[ir.Node]) -> bool:
    """Return whether nodes that fold are one, or reductions of one shape over the same axes.

    Others of these may be over all other axes.  Products of matrices of the same shapes will do.
    """
    if len(folds) < 2:
        return True
    types = f.types()
    if {n.op for n in folds} == {"matmul"}:
        return len({tuple(types[a].shape for a in n.args) for n in folds}) == 1
    (shape, axes), *others = {(types[n.args[0]].shape, _axes(n)) for n in folds}
    rest = (shape, tuple(a for a in range(len(shape)) if a not in axes))
    return others in ([], [rest]) and all(OPS[n.op].kind is Kind.REDUCTION for n in folds)


def _axes(n: ir.Node) -> tuple[ir.Attr | None, ...]:
    """Return the axes that a node folds, which one with an ``axis`` names alone."""
    axes = n.attr.get("axes")
    return axes if isinstance(axes, tuple) else (n.attr.get("axis"),)
