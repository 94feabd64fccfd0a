"""Counter-based random bits: each element depends on its position and the seed alone.

Philox4x32-10 of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, *Parallel random numbers: as
easy as 1, 2, 3* (SC11): ten rounds turn a counter of four words and a key of two into four words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr, LetExpr, Var
from didyma.refimpl.ir.types import Array, DType, Shape, TensorType
from didyma.refimpl.ops.attributes import attributes, choice, integer, sizes
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import pick
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.rules import attr_error, concrete, shape_error
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Rules, Sample, Use, Work

ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)  # what the key grows by: the golden ratio, and sqrt(3) - 1
DTYPES = (DType.U32, DType.U64)
_WORD = 0xFFFFFFFF


def philox(counter: Sequence[Array], key: Sequence[int]) -> tuple[Array, Array, Array, Array]:
    """Return four words for each counter of four words, arrays of u32.

    >>> [hex(int(w)) for w in philox([np.zeros((), np.uint32)] * 4, (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = counter
    k, m = key
    for _ in range(ROUNDS):
        p, q = _product(a, FACTORS[0]), _product(c, FACTORS[1])
        a, c = _mixed_words(q, b, k), _mixed_words(p, d, m)
        b, d = q.astype(np.uint32), p.astype(np.uint32)
        k, m = (k + STEPS[0]) & _WORD, (m + STEPS[1]) & _WORD
    return a, b, c, d


def _product(x: Array, factor: int) -> Array:
    return np.asarray(x.astype(np.uint64) * np.uint64(factor))


def _mixed_words(product: Array, word: Array, key: int) -> Array:
    upper = (product >> np.uint64(32)).astype(np.uint32)
    return np.asarray(upper ^ word ^ np.uint32(key))


@attributes
class RandomBits:
    """The result's type, and which of the seed's streams it holds."""

    dtype: DType = choice("dtype of the result", DTYPES)
    shape: Shape = sizes("shape of the result")
    stream: int = integer("which of a seed's streams, at least 0")


def _infer(types: Sequence[TensorType], a: RandomBits) -> TensorType:
    (seed,) = types
    if seed.rank:
        raise shape_error("random_bits", types, f"a seed of rank {seed.rank}", "a scalar seed")
    if not 0 <= a.stream < 1 << 63:
        raise attr_error("random_bits", "stream", a.stream, "a number in [0, 2**63)")
    return TensorType(a.dtype, a.shape, seed.device)


def bits(seed: int, stream: int, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return the elements of ``random_bits``."""
    place = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    low, high = place.astype(np.uint32), (place >> np.uint64(32)).astype(np.uint32)
    words = philox((low, high, *_halves(stream)), _split(seed))
    if dtype is DType.U32:
        return words[0].reshape(shape)
    upper = words[1].astype(np.uint64) << np.uint64(32)
    return np.asarray(words[0] | upper).reshape(shape)


def _split(n: int) -> tuple[int, int]:
    return n & _WORD, n >> 32


def _halves(n: int) -> tuple[Array, Array]:
    low, high = _split(n)
    return np.asarray(low, np.uint32), np.asarray(high, np.uint32)


def _eval(args: Sequence[Array], a: RandomBits, _result: TensorType) -> Array:
    return bits(int(args[0]), a.stream, concrete(a.shape), a.dtype)


def _bar(bars: Sequence[Bar], use: Use[RandomBits], _contract: Contract) -> Bar:
    c = _eval([bars[0].c], use.attrs, use.result)
    return Bar(c, np.full(c.shape, np.inf if bars[0].e.any() else 0.0))


def _u32(n: int) -> Const:
    return Const(n & _WORD, DType.U32)


def _half(x: Expr, high: bool) -> Expr:
    """Return the low or high word of 64 bits."""
    return Cast(Binary("shr", x, Const(32, x.dtype)) if high else x, DType.U32)


def _element(at: Index, reads: Sequence[Read], use: Use[RandomBits]) -> Expr:
    place, seed = Var("place"), Var("seed", DType.U64)
    stream = _split(use.attrs.stream)
    products: list[tuple[Var, Expr]] = []

    def product(x: Expr, factor: int) -> Var:
        made = Binary("mul", Cast(x, DType.U64), Const(factor, DType.U64))
        products.append((Var(f"product{len(products)}", DType.U64), made))
        return products[-1][0]

    counter: list[Expr] = [_half(place, False), _half(place, True), *map(_u32, stream)]
    a, b, c, d = counter
    for i in range(ROUNDS):
        k, m = (_added(_half(seed, j == 1), i * STEPS[j]) for j in range(2))
        p, q = product(a, FACTORS[0]), product(c, FACTORS[1])
        a, c = _mixed(q, b, k), _mixed(p, d, m)
        b, d = _half(q, False), _half(p, False)
    value = a
    if use.attrs.dtype is DType.U64:
        upper = Binary("shl", Cast(b, DType.U64), Const(32, DType.U64))
        value = Binary("or", Cast(a, DType.U64), upper)
    for var, e in reversed(products):
        value = LetExpr(var, e, value)
    value = LetExpr(seed, reads[0](()), value)
    return LetExpr(place, ex.flatten(at, map(ex.of_dim, use.result.shape)), value)


def _mixed(product: Expr, word: Expr, key: Expr) -> Expr:
    return Binary("xor", Binary("xor", _half(product, True), word), key)


def _added(word: Expr, n: int) -> Expr:
    return Binary("add", word, _u32(n)) if n else word


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank != 0 or t.dtype is not DType.U64:
        if ch.below(4):  # its seed is drawn besides: a scalar of u64 is rare
            return None
        t = TensorType(DType.U64, (), t.device)
    shape = pick(ch, ((3,), (2, 3), (), (4, 1, 5), (0,), (33,)))
    stream = pick(ch, (0, 1, 5, 1 << 40))
    return Sample((t,), freeze({"dtype": pick(ch, DTYPES), "shape": shape, "stream": stream}))


RANDOM_BITS = Op(
    name="random_bits",
    doc=(
        "Random bits of a seed (operand 0, a scalar of u64): element i, counted in row-major order,"
        " is made by Philox4x32-10 of the counter (i mod 2 ** 32, i // 2 ** 32, stream mod 2 ** 32,"
        " stream // 2 ** 32) and the key (seed mod 2 ** 32, seed // 2 ** 32). u32 is the first"
        " word; u64 is the first, and the second above it."
    ),
    special="Other streams of one seed are independent. An empty shape gives nothing.",
    kind=Kind.INJECTIVE,
    dtypes=(DType.U64,),
    rules=Rules(RandomBits, infer=_infer, eval=_eval, bar=_bar, element=_element),
    sample=_sample,
    work=Work.ROUNDS,
    example=example(
        [0], [0x6627E8D5, 0xF8E4CCA4], DType.U64, DType.U32, dtype=DType.U32, shape=(2,), stream=0
    ),
)

ALL: tuple[Op, ...] = (RANDOM_BITS,)
