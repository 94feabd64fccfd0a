"""Recognise attention, however its softmax is written.

Weights are exponentials of what scores lack to the largest of their row, over the sum of these.
The quotient is taken before the second product or after it, as a product with an inverse, or in the
exponent, as a difference of logarithms.  What weights are multiplied by first, such as the mask of
a dropout, is part of the attention, and so is a zero in place of weights that are no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from didyma.codegen.passes.values import kind
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.ops.conversion import largest
from didyma.refimpl.ops.spec import Kind

Defs = Mapping[str, Node]
Types = Mapping[str, TensorType]


@dataclass(frozen=True, slots=True)
class Attention:
    """The nodes of an attention: both products, and the operand of the softmax.

    ``output`` is the weighted mean of the rows of ``value``: the second product, or the quotient of
    that.  ``top`` and ``total`` are the largest score of a row, and its sum of exponentials.  The
    product takes ``weight``, which is made of ``share``, the softmax or its exponentials.  A
    ``guard`` puts zeros in place of some: where its condition holds for a row, or, if ``share`` is
    its own result, where the softmax is no number.  Weights are shares times factors, whose product
    is finite and at most ``factor``, or is not finite; None if there are no factors.
    """

    scores: Node
    score: str
    output: Node
    value: str
    top: str
    total: str
    share: str
    weight: str
    guard: Node | None
    factor: float | None


@dataclass(frozen=True, slots=True)
class _Softmax:
    """What a softmax is taken of, and its values of rows."""

    score: str
    top: str
    total: str


def attention(defs: Defs, types: Types, output: Node) -> Attention | None:
    """Return the attention whose weighted mean a node is; None if it is of none.

    The left operand of the second product must be a softmax along its last axis, of what
    elementwise ops make of the elements of one other product of this shape.  ``defs`` are the nodes
    by their results.
    """
    found = examined(defs, types, output)
    return None if isinstance(found, str) else found


def examined(defs: Defs, types: Types, output: Node) -> Attention | str:
    """Return the attention whose weighted mean a node is, or why it is of none.

    The reason is "" for a node that is not even a product with weights that are computed of
    exponentials of another product.
    """
    if output.op == "matmul":
        return _attention(defs, types, output, output, "")
    numerator, divisor = _quotient(defs, output.results[0])
    product = defs.get(_uncast(defs, numerator))
    if product is None or product.op != "matmul" or product.types[0].shape != output.types[0].shape:
        return ""
    return _attention(defs, types, output, product, _uncast(defs, divisor))


def _attention(
    defs: Defs, types: Types, output: Node, product: Node, divisor: str
) -> Attention | str:
    """Return the attention of a second product, which is divided by sums if there is a divisor."""
    weight, value = product.args
    found = next(_softmaxes(defs, types, weight, divisor), None)
    if found is None:
        return _no_softmax(defs, types, weight)
    share, softmax = found
    score = softmax.score
    each = {n.results: n for n in products(defs, types, score)}
    if not each:
        return ""
    if len(each) > 1:
        return f"scores are computed of {len(each)} products"
    if types[output.results[0]].shape[:-1] != types[score].shape[:-1]:
        return "the batches of values are not those of scores"
    (scores,) = each.values()
    if not _is_elementwise(defs, score, scores.results[0]):
        return "a score depends on others than its own element of the first product"
    if value in dependent(defs, value, scores.results[0]):
        return "values depend on scores"
    on_scores = dependent(defs, weight, scores.results[0])
    steps = _steps(defs, types, weight, share, on_scores)
    if isinstance(steps, str):
        return steps
    guards = [n for n in steps if n.op == "where"]
    guard = guards[0] if len(guards) == 1 else None
    if guard is not None and guard.args[0] in on_scores:
        before = steps[: steps.index(guard)]
        if divisor or any(n.op != "cast" for n in before):
            return "weights that are no numbers are replaced by zeros after they are scaled"
        (share,), steps = guard.results, steps[len(before) + 1 :]
    if len(guards) > 1:
        return "weights are replaced by zeros more than once"
    factors = [a for n in steps if n.op != "where" for a in n.args if a not in on_scores]
    bound = math.prod(_most(defs, types, a) for a in factors)
    if any(n.op == "divide" for n in steps):
        bound = math.inf
    return Attention(
        scores, score, output, value, softmax.top, softmax.total, share, weight, guard,
        bound if factors else None,
    )  # fmt: skip


def _no_softmax(defs: Defs, types: Types, weight: str) -> str:
    """Return why weights are no softmax; "" if no exponential of a product is among them."""
    powers = [
        n
        for n in _above(defs, types, weight)
        if n.op == "exp" and any(products(defs, types, n.args[0]))
    ]
    if not powers:
        return ""
    for n in powers:
        less = _source(defs, n.args[0], "subtract")
        if less is None:
            continue
        top = row_fold(defs, types, less.args[1], "max")
        if top is not None and top.args == less.args[:1]:
            return "exponentials are not divided by their own sum along the last axis"
    return "exponentials are not of what scores lack to the largest of their row"


def _above(defs: Defs, types: Types, value: str) -> Iterator[Node]:
    """Yield the nodes that a value is computed of by elementwise ops of its shape."""
    todo, seen = [value], set[str]()
    while todo:
        n = defs.get(name := todo.pop())
        if n is None or name in seen or types[name].shape != types[value].shape:
            continue
        seen.add(name)
        yield n
        if kind(n) is Kind.ELEMENTWISE:
            todo += n.args


def _softmaxes(
    defs: Defs, types: Types, weight: str, divisor: str
) -> Iterator[tuple[str, _Softmax]]:
    """Yield the softmaxes, or exponentials with sums ``divisor``, that weights may be made of."""
    todo, seen = [weight], set[str]()
    while todo:
        n = defs.get(name := todo.pop())
        if n is None or name in seen or types[name].shape != types[weight].shape:
            continue
        seen.add(name)
        found = _powers(defs, types, name, divisor) if divisor else _softmax(defs, types, name)
        if found is not None:
            yield name, found
        elif n.op in ("cast", "multiply", "divide", "where"):
            todo += n.args


def _softmax(defs: Defs, types: Types, name: str) -> _Softmax | None:
    """Return what a value is the softmax of, by a quotient or by a difference of logarithms."""
    powers, divisor = _quotient(defs, name)
    if divisor:
        return _powers(defs, types, powers, divisor)
    power = _source(defs, name, "exp")
    less = None if power is None else _source(defs, power.args[0], "subtract")
    if less is None:
        return None
    log = _source(defs, less.args[1], "log")
    both = _source(defs, less.args[1], "add")
    shifted = _source(defs, less.args[0], "subtract")
    if both is not None:  # score - (log total + top)
        log = _source(defs, both.args[0], "log")
    total = None if log is None else row_fold(defs, types, log.args[0], "sum")
    powers = "" if total is None else total.args[0]
    found = _powers(defs, types, powers, log.args[0]) if log is not None else None
    if found is None:
        return None
    if both is None:
        inner = defs[powers].args[0]
        return found if shifted is not None and shifted.results[0] == inner else None
    top = row_fold(defs, types, both.args[1], "max")
    same = top is not None and top.args[0] == found.score == less.args[0]
    return found if same else None


def _powers(defs: Defs, types: Types, name: str, divisor: str) -> _Softmax | None:
    """Return the softmax whose exponentials are a value, and their sums another."""
    power, total = _source(defs, name, "exp"), row_fold(defs, types, divisor, "sum")
    shifted = None if power is None else _source(defs, power.args[0], "subtract")
    if shifted is None or total is None or total.args != (name,):
        return None
    score, largest_score = shifted.args
    top = row_fold(defs, types, largest_score, "max")
    if top is None or top.args != (score,):
        return None
    return _Softmax(score, largest_score, divisor)


def row_fold(defs: Defs, types: Types, name: str, op: str) -> Node | None:
    """Return the fold along the last axis of which a value has one element for each row.

    That axis is kept, or added again by a reshape.
    """
    n = defs.get(name)
    if n is not None and n.op == "reshape":
        n = defs.get(n.args[0])
    if n is None or n.op != op:
        return None
    shape = types[n.args[0]].shape
    last = n.attr["axes"] == (len(shape) - 1,)
    return n if last and types[name].shape == (*shape[:-1], 1) else None


def _source(defs: Defs, name: str, op: str) -> Node | None:
    n = defs.get(name)
    return n if n is not None and n.op == op else None


def _uncast(defs: Defs, name: str) -> str:
    """Return the value that casts make a value of."""
    while (n := _source(defs, name, "cast")) is not None:
        name = n.args[0]
    return name


def _steps(
    defs: Defs, types: Types, weight: str, share: str, on_scores: Collection[str]
) -> list[Node] | str:
    """Return the nodes, first to last, that make weights of shares, or why there are others.

    They are casts, products with and quotients by what does not depend on scores, and guards.
    """
    steps, name = list[Node](), weight
    while name != share:
        n = defs[name]
        read = [a for a in n.args if a in on_scores]
        if _is_guard(defs, types, n, on_scores):
            read = read[-1:]
        elif n.op not in ("cast", "multiply") and (n.op != "divide" or n.args[0] not in read):
            return _between(types, n)
        if len(read) != 1:
            return f"{n.op} takes weights more than once"
        steps.append(n)
        (name,) = read
    return steps[::-1]


def _between(types: Types, n: Node) -> str:
    """Return what stands between weights and the second product."""
    pairs = n.op == "where" and types[n.args[0]].shape[-1:] != (1,)
    where = ", of each pair of a query and a key," if pairs else ""
    return f"{n.op}{where} stands between the softmax and the second product"


def _is_guard(defs: Defs, types: Types, n: Node, on_scores: Collection[str]) -> bool:
    """Return whether a node puts zeros in place of what is no number, or of whole rows."""
    if n.op != "where" or not _is_all(defs, n.args[1], 0):
        return False
    if n.args[0] not in on_scores:
        return types[n.args[0]].shape[-1:] == (1,) != types[n.args[2]].shape[-1:]
    found = _source(defs, n.args[0], "isnan")
    return found is not None and found.args[0] == n.args[2]


def _most(defs: Defs, types: Types, name: str) -> float:
    """Return a number that elements of a value do not exceed, unless they are not finite."""
    dtype = types[name].dtype
    most = largest(dtype) if dtype.is_float else math.inf
    match defs.get(name):
        case Node(op="constant") as n:
            value = n.attr["value"]
            assert isinstance(value, Tensor)
            return float(abs(value.array()).max(initial=0))
        case Node(op="cast" | "broadcast_to" | "reshape" | "permute_dims", args=(of,)):
            if types[of].dtype is DType.BOOL:
                return 1.0
            return min(most, _most(defs, types, of))
        case Node(op="multiply", args=args):
            return min(most, math.prod(_most(defs, types, a) for a in args))
        case _:
            return most


def _quotient(defs: Defs, name: str) -> tuple[str, str]:
    """Return what a value is the quotient of, or the product with an inverse; "" for neither."""
    match defs.get(name):
        case Node(op="divide", args=(numerator, divisor)):
            return numerator, divisor
        case Node(op="multiply", args=(left, right)):
            for by, other in ((left, right), (right, left)):
                if divisor := _inverse_of(defs, other):
                    return by, divisor
        case _:
            pass
    return "", ""


def _inverse_of(defs: Defs, name: str) -> str:
    """Return the value of which another is the inverse; "" if it is of none."""
    match defs.get(name):
        case Node(op="reciprocal", args=(of,)):
            return of
        case Node(op="divide", args=(one, of)) if _is_all(defs, one, 1):
            return of
        case _:
            return ""


def _is_all(defs: Defs, name: str, number: int) -> bool:
    """Return whether a value is a constant whose elements are one number."""
    n = _source(defs, name, "constant")
    value = None if n is None else n.attr["value"]
    return isinstance(value, Tensor) and bool((value.array() == number).all())


def _is_elementwise(defs: Defs, score: str, on: str) -> bool:
    """Return whether the operand of the softmax depends on each score at its own place alone.

    Both have one shape, and elementwise ops only enlarge shapes.
    """
    return are_elementwise(defs, dependent(defs, score, on) - {on})


def are_elementwise(defs: Defs, values: Collection[str]) -> bool:
    """Return whether values are results of elementwise ops."""
    return all(kind(defs[name]) is Kind.ELEMENTWISE for name in values)


def products(defs: Defs, types: Types, value: str) -> Iterator[Node]:
    """Yield the products that a value is computed of, by elementwise ops of one shape alone."""
    return (n for n in _above(defs, types, value) if n.op == "matmul")


def dependent(defs: Defs, value: str, on: str) -> set[str]:
    """Return the values that a value is computed of, itself included, that depend on another."""
    found, done, todo = {on}, {on}, [value]
    while todo:
        n = defs.get(name := todo[-1])
        if new := [a for a in n.args if a not in done] if n is not None else []:
            todo += new  # a value comes behind what it needs
            continue
        todo.pop()
        done.add(name)
        if n is not None and not found.isdisjoint(n.args):
            found.add(name)
    return found


def is_logsumexp(defs: Defs, a: Attention, name: str) -> bool:
    """Return whether a value is the logarithm of the sum of each row's exponentials."""
    n = defs[name]
    if n.op != "add" or n.args[1] != a.top:
        return False
    log = _source(defs, n.args[0], "log")
    return log is not None and log.args == (a.total,)
