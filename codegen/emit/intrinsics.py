"""The named intrinsics of kernel text: what a prelude implements and an emitter may call.

A C type is written as kernel text writes it: ``f32``, ``b8``, ``f32x4``, ``const f32 *``, ``void``.

=================  ==================================================================
name               meaning
=================  ==================================================================
``add_i8`` …       integer arithmetic that wraps; see the comments on ``loop.BinaryOp``
``floormod_f32``   float arithmetic that C has no operator for
``exp_f32`` …      each of ``loop.INTRINSICS``; predicates yield b8
``exp2_flush_f32``  ``exp2_f32``, but 0 in place of what is less than 2**-126
``exp_flush_f32``  likewise ``exp_f32`` of numbers up to 0, each a term of a sum that is 1 at least,
                   in which errors of more ulp below 2**-57 are lost, too
``cast_a_b``       conversion; storage floats convert from and to f32 alone
``bitcast_a_b``    the bits of a float as the unsigned integer of its width, and back
``atomic_add_T``   ``*p = op(*p, v)`` indivisibly; nothing is returned
``atomic_fetch_add_i32``  likewise ``*p = *p + v``; returns what ``*p`` was before
``device_fence``   what the thread has written, or knows that others have, is there for a thread of
                   any block that knows of what the thread does next
``shuffle_xor_T``  what the thread gives whose number differs in the bits of a literal below
                   the warp's width; every thread of the block calls it, or of the warp where
                   warps wait at barriers in shared memory
``chain_ticket``   how many blocks began before: the first element of zeros counts them
``chain_add_T``    the result of the blocks before this one: of its chains, states and totals, its
                   number, how many are along a line, what the first has, and what it gives
``cluster_barrier``  every thread of the blocks of a cluster arrives before any goes on
``cluster_load_T``  ``*p`` of the block of the cluster that has a rank: ``p`` is in shared memory
``cluster_store_T``  likewise ``*p = v``
``load4_T``        four neighbours from an address that is a multiple of their size, or of 16;
                   likewise 2, 8 and 16 of them
``store4_T``       likewise
``load4_pass_T``   ``load4_T`` of what is not soon touched again: caches may lose it first
``store4_pass_T``  likewise
``quotients4_f32`` four numbers, each divided by a last; likewise 2, 8 and 16
``prefetch_T``     a hint that what an address holds will be loaded
``cp_async16_T``   ``cp_async16_T(to, from)`` starts a copy of 16 bytes, or 8 or 4, from global to
                   shared memory; both addresses are multiples of that
``cp_async16_zfill_T``  likewise of its first ``n`` elements alone, a third argument; zero follows
``cp_async_commit``  the copies that a thread has started since the last commit are a group
``cp_async_wait``  the thread waits until only a literal number of its last groups are under way;
                   a barrier after that lets the other threads of the block touch what was copied
``ldmatrix4_T``    four matrices of 8 rows of 16 bytes in shared memory, whose addresses, multiples
                   of 16, are given by the threads of a warp in turn: of matrix ``i``, thread ``t``
                   gets the 4 bytes at ``4 * (t % 4)`` of row ``t / 4``; likewise 2 and 1 of them
``ldmatrix4_trans_T``  likewise of T of 2 bytes, but the elements are those in column ``t / 4`` of
                   the rows ``2 * (t % 4)`` and the next
``mma_m16n8k16_T`` ``a @ b + c`` of fragments (``refimpl.ir.fragments``) by a warp, in f32; likewise
                   ``m16n8k8_tf32``, and ``m16n8k32_i8`` in i32
``tf32_f32``       the nearest f32 whose last 13 bits are 0, of two the larger in size
``wgmma_m64n128k16_T_kn``  starts ``d += a @ b`` (``refimpl.ir.group_products``) by four warps:
                   ``d`` is an array of each thread, ``a`` and ``b`` lie in shared memory; likewise
                   of 32 to 256 columns by steps of 32, and lines of ``kk``, ``mk``, ``mn``; of
                   ``rk`` and ``rn`` each thread holds a as an array of eight elements, and
                   ``rn`` has 64 to 256 columns by steps of 16; also ``m64n128k8_tf32_kk`` of f32
                   that ``tf32_f32`` has rounded, and ``m64n128k32_i8_kk`` in i32
``narrow2_T``      two numbers of f32 as those of T, each rounded as ``cast_f32_T`` does
``wgmma_fence``    what a thread has written to arrays of its own is there for those that follow
``wgmma_commit``   the products that a thread has started since the last commit are a group
``wgmma_wait``     the thread waits until only a literal number of its last groups are under way
``proxy_fence``    what a thread has written to shared memory is there for ``wgmma``, once others
                   know of it by a barrier
``mbarrier_init``  a u64 in shared memory is a barrier, a phase of which so many arrivals end
``mbarrier_arrive``  the thread arrives
``mbarrier_arrive_at``  likewise, at the barrier there of the block of the cluster that has a rank
``mbarrier_expect``  the thread arrives, and the phase ends no sooner than so many bytes have come
``mbarrier_give_T``  begins to store a number at an address in the shared memory of the block of the
                   cluster that has a rank; its bytes come to the barrier there
``mbarrier_wait``  the thread waits for the end of the phase whose number has a parity, counted
                   from 0; the phase before the first has parity 1, and has ended
``named_barrier``  a literal number of threads wait for each other at a barrier, numbered from 1;
                   they are whole warps
``any_b8``         whether it is true for some thread of the warp, which all of it call together
``setmaxnreg_dec`` each thread of four warps has so many registers from now on, a literal, and gives
                   the others back; ``setmaxnreg_inc`` takes more
``tensor_map3_T``  describes an array, with neighbours along its first axis, to the copies of boxes:
                   where the description goes, of 16 words, the first element, extents, strides of
                   the two other axes, and the second extent of a box of 64 by that by 1
``tensor_map``     is the type of arguments that describe arrays likewise, which the kernel is
                   launched with; ``&m`` is the description
``tma_load3_T``    starts the copy of a box: to shared memory, by a description, from three
                   coordinates; zeros for what is outside of the array.  The bytes come to a barrier
``tma_im2col_T``   likewise of pixels of images: from a channel, a column, a line and an image on,
                   each read so many columns and lines beyond, which are not negative
``tma_share3_T``   as ``tma_load3_T``, to that place in those blocks of the cluster whose ranks are
                   the bits of a last number; the bytes come to the barrier of each
``tma_store3_T``   starts the copy of a box from shared memory: to coordinates, by a description;
                   nothing is written outside of the array
``tma_commit``     the stores of boxes that a thread has started since the last commit are a group
``tma_wait``       the thread waits until only a literal number of its last groups still read shared
                   memory; before it ends it waits for all
``tma_stored``     likewise, until the others are in global memory, too
``assert_b8``      a fault of the launch unless it is true
``inf_T nan_T``    literals that C lacks
=================  ==================================================================

A target has the functions of those ``FAMILIES`` that are among its ``families``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from didyma.refimpl.ir import group_products
from didyma.refimpl.ir.facts import FLUSHED
from didyma.refimpl.ir.fragments import PRODUCTS
from didyma.refimpl.ir.loop import ATOMIC_OPS, BITCASTS, CHAIN_OPS, INTRINSICS
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import BYTES, F8, INTS, UNSIGNED, DType

LANES = 4  # of the vectors that intrinsics take
WIDTHS = (2, LANES, 8, 16)  # lanes of wide accesses
MATRICES = tuple(d for d in BYTES if d.nbytes <= 4 and d is not DType.BOOL)
COPIES = (4, 8, 16)  # bytes of asynchronous copies
# The families of functions that only some targets have, by the beginnings of their names.
FAMILIES = {
    "cp_async": "cp_async", "ldmatrix": "mma", "mma_": "mma", "tf32_": "mma", "wgmma_": "wgmma",
    "narrow2_": "wgmma",
    "proxy_fence": "wgmma", "setmaxnreg_": "wgmma", "mbarrier_": "mbarrier",
    "named_barrier": "mbarrier", "any_b8": "mbarrier", "tensor_map": "tma", "tma_": "tma",
}  # fmt: skip
# Functions whose one argument is a literal.
LITERALS = (
    "cp_async_wait", "wgmma_wait", "tma_wait", "tma_stored", "setmaxnreg_dec", "setmaxnreg_inc",
)  # fmt: skip
MAP, WORDS = "tensor_map", 16  # the type of a tensor map, and the words of 8 bytes that it has
BOXED = (DType.F16, DType.BF16)  # elements of arrays of which boxes are copied
GIVEN = (DType.F32, DType.F64)  # numbers that a thread gives to another block of its cluster

INT_BINARY = (
    "add", "sub", "mul", "floordiv", "truncdiv", "floormod", "truncmod",
    "shl", "shr", "min", "max", "pow",
)  # fmt: skip
INT_UNARY = ("neg", "abs")
FLOAT_BINARY = ("min", "max", "floordiv", "floormod", "truncmod", "pow", "atan2")
FLOAT_UNARY = ("abs",)
COMPUTED = (DType.F64, DType.F32)
CAST_AMONG = (*COMPUTED, *INTS, DType.BOOL)
STORED = (DType.F16, DType.BF16, *F8)

SYNTAX = ("threadIdx", "blockIdx", "blockDim", "gridDim", "__syncthreads")


def c_type(dtype: DType) -> str:
    """Return the name of a dtype in kernel text.

    >>> c_type(DType.F32), c_type(DType.BOOL)
    ('f32', 'b8')
    """
    return "b8" if dtype is DType.BOOL else dtype.value


# C99 types of the typedefs; storage floats are held as their bits.
TYPES: dict[str, str] = {
    "f64": "double",
    "f32": "float",
    "f16": "unsigned short",
    "bf16": "unsigned short",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "u64": "unsigned long long",
    "b8": "unsigned char",
    **{d.value: "unsigned char" for d in F8},
}
NBYTES: dict[str, int] = {c_type(d): d.nbytes for d in BYTES}
# Structs of lanes, aligned to the whole or to 16 bytes: name -> type of a lane, and their number.
VECTORS: dict[str, tuple[str, int]] = {
    f"{c_type(d)}x{n}": (c_type(d), n) for d in BYTES for n in WIDTHS
}


def components(lanes: int) -> tuple[str, ...]:
    """Return the names of the lanes of a vector.

    >>> components(4), components(16)[9:12]
    (('x', 'y', 'z', 'w'), ('s9', 'sa', 'sb'))
    """
    return tuple("xyzw"[:lanes] if lanes <= LANES else (f"s{n:x}" for n in range(lanes)))


@dataclass(frozen=True, slots=True)
class CFunction:
    """The C types of an intrinsic's arguments and of its result."""

    args: tuple[str, ...]
    result: str


def _ints() -> dict[str, CFunction]:
    table: dict[str, CFunction] = {}
    for t in map(c_type, INTS):
        table |= {f"{op}_{t}": CFunction((t, t), t) for op in INT_BINARY}
        table |= {f"{op}_{t}": CFunction((t,), t) for op in INT_UNARY}
    return table


def _floats() -> dict[str, CFunction]:
    table: dict[str, CFunction] = {}
    for t in map(c_type, COMPUTED):
        table |= {f"{op}_{t}": CFunction((t, t), t) for op in FLOAT_BINARY}
        table |= {f"{op}_{t}": CFunction((t,), t) for op in FLOAT_UNARY}
        for op, x in INTRINSICS.items():
            table[f"{op}_{t}"] = CFunction((t,) * x.operands, "b8" if x.predicate else t)
        table |= {f"{literal}_{t}": CFunction((), t) for literal in ("inf", "nan")}
    table |= {f"{op}_flush_f32": CFunction(("f32",), "f32") for op in FLUSHED}
    return table


def _casts() -> dict[str, CFunction]:
    pairs = [(a, b) for a in CAST_AMONG for b in CAST_AMONG if a is not b]
    pairs += [(a, DType.F32) for a in STORED] + [(DType.F32, b) for b in STORED]
    named = [(c_type(a), c_type(b)) for a, b in pairs]
    return {f"cast_{a}_{b}": CFunction((a,), b) for a, b in named}


def _bitcasts() -> dict[str, CFunction]:
    pairs = [(d, u) for d in BITCASTS.values() for u in UNSIGNED if d.nbytes == u.nbytes]
    named = [(c_type(d), c_type(u)) for d, u in pairs if d.is_float]
    named += [(b, a) for a, b in named]
    return {f"bitcast_{a}_{b}": CFunction((a,), b) for a, b in named}


def _memory() -> dict[str, CFunction]:
    table: dict[str, CFunction] = {}
    for t in map(c_type, PORTABLE.atomics):
        table |= {f"atomic_{op}_{t}": CFunction((f"{t} *", t), "void") for op in ATOMIC_OPS}
    table["atomic_fetch_add_i32"] = CFunction(("i32 *", "i32"), "i32")
    table["device_fence"] = CFunction((), "void")
    for t in map(c_type, CAST_AMONG):
        table[f"shuffle_xor_{t}"] = CFunction((t, "u32"), t)
    for vector, (t, n) in VECTORS.items():
        for kind in ("", "pass_"):
            table[f"load{n}_{kind}{t}"] = CFunction((f"const {t} *",), vector)
            table[f"store{n}_{kind}{t}"] = CFunction((f"{t} *", vector), "void")
    for n in WIDTHS:
        table[f"quotients{n}_f32"] = CFunction((f"f32x{n}", "f32"), f"f32x{n}")
    for t in map(c_type, BYTES):
        table[f"prefetch_{t}"] = CFunction((f"const {t} *",), "void")
        table[f"cluster_load_{t}"] = CFunction((f"const {t} *", "u32"), t)
        table[f"cluster_store_{t}"] = CFunction((f"{t} *", "u32", t), "void")
    table |= _copies() | _matrices() | _boxes()
    for t in map(c_type, (*COMPUTED, *INTS)):
        args = ("i32 *", f"{t} *", "i64", "i64", t, t)
        table |= {f"chain_{op}_{t}": CFunction(args, t) for op in CHAIN_OPS}
    table["chain_ticket"] = CFunction(("i32 *",), "i64")
    table["cluster_barrier"] = CFunction((), "void")
    table["assert_b8"] = CFunction(("b8",), "void")
    return table


def _copies() -> dict[str, CFunction]:
    table = {
        "cp_async_commit": CFunction((), "void"),
        "cp_async_wait": CFunction(("u32",), "void"),
    }
    for n, t in product(COPIES, map(c_type, BYTES)):
        if NBYTES[t] <= n:
            args = (f"{t} *", f"const {t} *")
            table[f"cp_async{n}_{t}"] = CFunction(args, "void")
            table[f"cp_async{n}_zfill_{t}"] = CFunction((*args, "u32"), "void")
    return table


def _matrices() -> dict[str, CFunction]:
    table = {"tf32_f32": CFunction(("f32",), "f32")}
    for n, d in product((1, 2, 4), MATRICES):
        t, lanes = c_type(d), 4 * n // d.nbytes
        if f"{t}x{lanes}" in VECTORS:
            table[f"ldmatrix{n}_{t}"] = CFunction((f"const {t} *",), f"{t}x{lanes}")
            if d.nbytes == 2:
                table[f"ldmatrix{n}_trans_{t}"] = table[f"ldmatrix{n}_{t}"]
    for p in PRODUCTS.values():
        a, b, c = (f"{c_type(d)}x{n}" for d, n in p.fragments)
        table[f"mma_{p.name}"] = CFunction((a, b, c), c)
    for g in group_products.PRODUCTS.values():
        operand = f"const {c_type(g.operands)} *"
        table[f"wgmma_{g.name}"] = CFunction((f"{c_type(g.total)} *", operand, operand), "void")
    for t in map(c_type, BOXED):
        table[f"narrow2_{t}"] = CFunction(("f32", "f32"), f"{t}x2")
    plain = ("wgmma_fence", "wgmma_commit", "proxy_fence")
    table |= {name: CFunction((), "void") for name in plain}
    table["wgmma_wait"] = CFunction(("u32",), "void")
    return table


def _boxes() -> dict[str, CFunction]:
    table = {
        "mbarrier_init": CFunction(("u64 *", "u32"), "void"),
        "mbarrier_arrive": CFunction(("u64 *",), "void"),
        "mbarrier_arrive_at": CFunction(("u64 *", "u32"), "void"),
        "mbarrier_expect": CFunction(("u64 *", "u32"), "void"),
        "mbarrier_wait": CFunction(("u64 *", "u32"), "void"),
        "named_barrier": CFunction(("u32", "u32"), "void"),
        "any_b8": CFunction(("b8",), "b8"),
        "tma_commit": CFunction((), "void"),
        "tma_wait": CFunction(("u32",), "void"),
        "tma_stored": CFunction(("u32",), "void"),
        "setmaxnreg_dec": CFunction(("u32",), "void"),
        "setmaxnreg_inc": CFunction(("u32",), "void"),
    }
    for t in map(c_type, GIVEN):
        table[f"mbarrier_give_{t}"] = CFunction((f"{t} *", "u32", t, "u64 *"), "void")
    for t in map(c_type, BOXED):
        described = ("u64 *", f"const {t} *", *("i64",) * 5, "u32")
        table[f"tensor_map3_{t}"] = CFunction(described, "void")
        copied = (f"{t} *", "const u64 *", *("i64",) * 3, "u64 *")
        table[f"tma_load3_{t}"] = CFunction(copied, "void")
        pixels = (f"{t} *", "const u64 *", *("i64",) * 6, "u64 *")
        table[f"tma_im2col_{t}"] = CFunction(pixels, "void")
        table[f"tma_share3_{t}"] = CFunction((*copied, "u32"), "void")
        stored = ("const u64 *", *("i64",) * 3, f"const {t} *")
        table[f"tma_store3_{t}"] = CFunction(stored, "void")
    return table


TABLE: dict[str, CFunction] = {**_ints(), **_floats(), **_casts(), **_bitcasts(), **_memory()}


def family(name: str) -> str | None:
    """Return the family that a function belongs to, None if every target has it.

    >>> family("cp_async16_f32"), family("exp_f32")
    ('cp_async', None)
    """
    return next((f for start, f in FAMILIES.items() if name.startswith(start)), None)
