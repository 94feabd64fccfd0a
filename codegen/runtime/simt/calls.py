"""Calls of kernel text that touch memory or other threads, compiled to closures over lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import NBYTES, TABLE, VECTORS, components
from didyma.codegen.runtime.simt import access, boxes, chain, groups, matrices, meets
from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.copies import COPY, PRODUCT, STORE, STORED
from didyma.codegen.runtime.simt.values import Arithmetic
from didyma.refimpl.ir.fragments import PRODUCTS
from didyma.refimpl.ir.loop import ATOMIC_OPS, AtomicOp

Eval: TypeAlias = Callable[[Run, Mask], Value]

_ATOMICS: dict[str, AtomicOp] = {op: op for op in ATOMIC_OPS}


class Compiles(Protocol):
    """What compiles the arguments of a call."""

    arithmetic: Arithmetic

    def expr(self, n: c.Node) -> Eval:
        """Compile an expression for its value."""
        ...

    def address(self, n: c.Node) -> tuple[str, Eval]:
        """Compile an address to the name of an array and an index."""
        ...


def of_memory(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval | None:
    """Compile a call of a function that touches memory or other threads; None for any other."""
    stem = name.split("_")[0]
    if name == "__syncthreads":
        return partial(_barrier, line)
    if name == "cluster_barrier":
        return lambda r, m: access.meeting(r, m, line)
    if stem == "cluster":
        return _elsewhere(t, args, line)
    if stem == "chain":
        count = 1 if name == chain.TICKET else 2
        arrays = [t.address(a)[0] for a in args[:count]]
        return chain.compiled(name, t.arithmetic, arrays, [t.expr(a) for a in args[count:]], line)
    if name == "device_fence":
        return lambda r, m: access.publish(r, m)
    if name == "atomic_fetch_add_i32":
        array, index = t.address(args[0])
        value = t.expr(args[1])
        return lambda r, m: access.fetch_add(r, r.arrays[array], index(r, m), value(r, m), m, line)
    if stem == "atomic":
        return _atomic(t, _ATOMICS[name.split("_")[1]], args, line)
    if stem == "shuffle":
        convert, mask = t.arithmetic.converter(TABLE[name].result), t.expr(args[1])
        value = t.expr(args[0])

        def exchange(r: Run, m: Mask) -> Value:
            return access.exchange(r, convert(value(r, m)), int(mask(r, m)), m, line)

        return exchange
    if stem.startswith("load"):
        return _load(t, name, args, line)
    if stem.startswith("store"):
        return _store(t, name, args, line)
    if stem.startswith("quotients"):
        return _quotients(t, args)
    if stem == "prefetch":
        array, index = t.address(args[0])
        return lambda r, m: access.prefetch(r, r.arrays[array], index(r, m), m, line)
    if name.startswith("cp_async"):
        return _copy(t, name, args, line)
    if stem.startswith("ldmatrix"):
        array, index = t.address(args[0])
        many = int(stem.removeprefix("ldmatrix"))
        return lambda r, m: matrices.load(r, name, r.arrays[array], index(r, m), many, m, line)
    if stem == "mma":
        return _product(t, name, args, line)
    if stem == "wgmma" or name == "proxy_fence":
        return _group(t, name, args, line)
    if stem == "narrow2":
        return _narrowed(t, name, args)
    if (met := _meeting(t, name, args, line)) is not None:
        return met
    if stem == "tf32":
        number, single = t.expr(args[0]), t.arithmetic.converter("f32")
        rounded = matrices.rounding(t.arithmetic)
        return lambda r, m: rounded(single(number(r, m)))
    return None


def _elsewhere(t: Compiles, args: Sequence[c.Node], line: int) -> Eval:
    array, index = t.address(args[0])
    rank, *given = map(t.expr, args[1:])
    return lambda r, m: access.elsewhere(
        r, r.arrays[array], index(r, m), rank(r, m), [v(r, m) for v in given], m, line
    )


def _atomic(t: Compiles, op: AtomicOp, args: Sequence[c.Node], line: int) -> Eval:
    array, index = t.address(args[0])
    value = t.expr(args[1])
    return lambda r, m: access.atomic(r, op, r.arrays[array], index(r, m), value(r, m), m, line)


def _alignment(type_name: str, count: int) -> int:
    """Return the bytes to a multiple of which a wide access must begin."""
    return min(16, NBYTES[type_name] * count)


def _load(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval:
    array, index = t.address(args[0])
    dtype, count = VECTORS[TABLE[name].result]
    nbytes, parts = _alignment(dtype, count), components(count)

    def read_lanes(r: Run, m: Mask) -> Value:
        a, at = r.arrays[array], index(r, m)
        access.aligned(r, a, at, nbytes, m, line)
        return {p: access.load(r, a, at + i, m, line, i == 0) for i, p in enumerate(parts)}

    return read_lanes


def _store(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval:
    array, index = t.address(args[0])
    dtype, count = VECTORS[TABLE[name].args[1]]
    value, nbytes, lanes = t.expr(args[1]), _alignment(dtype, count), components(count)

    def write_lanes(r: Run, m: Mask) -> None:
        a, struct, at = r.arrays[array], value(r, m), index(r, m)
        access.aligned(r, a, at, nbytes, m, line)
        for i, part in enumerate(lanes):
            access.store(r, a, at + i, struct[part], m, line, i == 0)

    return write_lanes


def _quotients(t: Compiles, args: Sequence[c.Node]) -> Eval:
    above, below = t.expr(args[0]), t.expr(args[1])
    divide, single = t.arithmetic.binary("/"), t.arithmetic.converter("f32")
    return lambda r, m: {part: single(divide(a, below(r, m))) for part, a in above(r, m).items()}


def _narrowed(t: Compiles, name: str, args: Sequence[c.Node]) -> Eval:
    f = t.arithmetic.function(f"cast_f32_{name.removeprefix('narrow2_')}")
    single = t.arithmetic.converter("f32")
    given = list(zip("xy", map(t.expr, args), strict=True))
    return lambda r, m: {part: f(single(value(r, m))) for part, value in given}


def _product(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval:
    run = matrices.product(t.arithmetic, PRODUCTS[name.removeprefix("mma_")])
    given = list(map(t.expr, args))
    return lambda r, m: run(r, m, [v(r, m) for v in given], line)


def _group(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval:
    if name == "wgmma_commit":
        return lambda r, m: r.copies.commit(r.who(m), PRODUCT)
    if name == "wgmma_wait":
        most = t.expr(args[0])
        return lambda r, m: r.copies.wait(r.warps, r.who(m), int(most(r, m)), PRODUCT)
    if name in groups.FENCES:
        return lambda r, m: groups.fence(r, name, m)
    run = groups.product(t.arithmetic, name)
    places = list(map(t.address, args))
    return lambda r, m: run(r, m, [(r.arrays[a], i(r, m)) for a, i in places], line)


def _barrier(line: int, r: Run, m: Mask) -> None:
    if r.meets is not None:
        meets.gather(r, 0, r.warps.threads, m, line)
    else:
        access.barrier(r, m, line)


def _nothing(r: Run, m: Mask) -> Value:
    del r, m
    return 0


def _meeting(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval | None:
    """Compile a call by which groups of threads meet, or copies of boxes come; None for others."""
    if name.startswith("setmaxnreg_"):
        return lambda r, m: None
    if name == "tma_commit":
        return lambda r, m: r.copies.commit(r.who(m), STORE, STORED)
    if name in ("tma_wait", "tma_stored"):
        most, kinds = t.expr(args[0]), (STORE,) if name == "tma_wait" else (STORE, STORED)
        return lambda r, m: r.copies.wait(r.warps, r.who(m), int(most(r, m)), *kinds)
    if name.startswith("tma_store3_"):
        (maps, where), (held, first) = t.address(args[0]), t.address(args[4])
        corner = list(map(t.expr, args[1:4]))
        return lambda r, m: boxes.store(
            r, name, (r.arrays[maps], where(r, m)), [v(r, m) for v in corner],
            (r.arrays[held], first(r, m)), m, line,
        )  # fmt: skip
    if name == "any_b8":
        told = t.expr(args[0])
        return lambda r, m: access.vote(r, told(r, m), m, line)
    if name == "named_barrier":
        number, threads = map(t.expr, args)
        return lambda r, m: meets.numbered(r, number(r, m), threads(r, m), m, line)
    if name.startswith("mbarrier_give_"):
        (to, index), (barrier, at) = t.address(args[0]), t.address(args[3])
        rank, value = map(t.expr, args[1:3])
        return lambda r, m: meets.give(
            r, name, r.arrays[to], index(r, m), rank(r, m), value(r, m), (barrier, at(r, m)), m,
            line,
        )  # fmt: skip
    if name.startswith("mbarrier_"):
        array, index = t.address(args[0])
        given: Eval = t.expr(args[1]) if len(args) > 1 else _nothing
        return lambda r, m: meets.mbarrier(r, name, array, index(r, m), given(r, m), m, line)
    if name.startswith(("tensor_map3_", "tma_load3_", "tma_share3_", "tma_im2col_")):
        (to, index), (source, start) = map(t.address, args[:2])
        last = 8 if name.startswith("tma_im2col_") else 5
        rest = args[2:last] if name.startswith("tma") else args[2:]
        values = list(map(t.expr, rest))
        if not name.startswith("tma"):
            return lambda r, m: meets.describe(
                r, name, r.arrays[to], index(r, m), r.arrays[source], start(r, m),
                [v(r, m) for v in values], m, line,
            )  # fmt: skip
        barrier, at = t.address(args[last])
        blocks = t.expr(args[last + 1]) if len(args) > last + 1 else None
        return lambda r, m: meets.fetch(
            r, name, r.arrays[to], index(r, m), r.arrays[source], start(r, m),
            [v(r, m) for v in values], (barrier, at(r, m)),
            None if blocks is None else blocks(r, m), m, line,
        )  # fmt: skip
    return None


def _copy(t: Compiles, name: str, args: Sequence[c.Node], line: int) -> Eval:
    if name == "cp_async_commit":
        return lambda r, m: r.copies.commit(r.who(m), COPY)
    if name == "cp_async_wait":
        most = t.expr(args[0])
        return lambda r, m: r.copies.wait(r.warps, r.who(m), int(most(r, m)), COPY)
    (to, to_index), (source, index) = map(t.address, args[:2])
    count = t.expr(args[2]) if len(args) > 2 else None

    nbytes = int(name.removeprefix("cp_async").split("_")[0])

    def start(r: Run, m: Mask) -> None:
        given = None if count is None else count(r, m)
        access.copy(
            r, name, r.arrays[to], to_index(r, m), r.arrays[source], index(r, m), nbytes, given,
            m, line,
        )  # fmt: skip

    return start
