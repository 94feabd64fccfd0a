"""PTX as data: operands, instructions, variables, functions, modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError

# Bytes of each type of registers and memory.
SIZES: Mapping[str, int] = {
    "pred": 1,
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "s16x2": 4,
    "u16x2": 4,
    "e4m3x2": 2,
    "e5m2x2": 2,
    "tf32": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "b128": 16,
}


_OPCODES = """
abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev
brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div
dp2a dp4a elect ex2 exit extern fence fma fns getctarank griddepcontrol isspacep istypep ld
ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul
mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem ret
rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore stacksave
stmatrix sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq
vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4
vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor
"""
# Instructions of the ISA; those that the engine does not run are refused where lanes reach them.
OPCODES = frozenset(_OPCODES.split())
_MODIFIERS = """
1d 2d 3d 4d 5d GE L1 L2 NaN a abs acq_rel acquire add alias aligned all alloc and any approx arrive
arrive_drop async async::generic b b4e ballot bfly block_scale box_dim bulk bulk_group c ca cas cc
cg clamp cluster col commit_group complete_tx const cp_fenceproxy cp_mask cs cta cv cvt d dec down
ecl ecr element_stride elemtype eq equ exch expect_tx f4e fence fill_mode finite fractional ftz
full gather4 ge generic get_first_ctaid geu gl global global_address global_dim global_stride gpu
gt gtu hi hs idx ignore_oob im2col im2col_no_offs inc infinite init interleave_layout inval
is_canceled l launch_dependents ld_reduce le leu level lo load local ls lt ltu lu max mbarrier
mbarrier_init min mma mma_async mmio multicast nan nc ne neu noComplete noftz noinc normal
notanumber num number or ordered pack param parity pending_count popc pred prefetch proxy
query_cancel r range rank rc16 rc8 read red reduce relaxed release relu replace rm rmi rn rna rni
row rp rpi rs rz rzi sat satfinite sc scatter4 shared shiftamt sp st store subnormal swizzle_mode
sync sync_restrict sys tensor tensormap test_wait tile to trans try_cancel try_wait uni unified up
volatile wait wait_all wait_group warp wb weak wide wrap wt xor xorsign
"""
_KNOWN = frozenset(_MODIFIERS.split())
# Types, vectors, shapes, and words whose parts say of what they are.
_FORMED = re.compile(
    r"(?:[bsu](?:1|2|4|8|16|32|64|128|1024)|[us](?:8x4|16x2)|b?f16(?:x2)?|tf32|f32(?:x2)?|f64"
    r"|u?e\dm\d(?:x[24])?|[vx]\d|m\d+n\d+(?:k\d+)?|[a-zL]\w*::[\w:]+)$"
)
CLOCKS = ("clock", "globaltimer")  # how the names of special registers begin that tell a time


@dataclass(frozen=True, slots=True)
class Reg:
    """A register, by its number."""

    index: int


@dataclass(frozen=True, slots=True)
class Imm:
    """A number, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, or a label or a function."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter of a call: bytes that every lane has of its own."""

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A parameter of the kernel."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Memory at an address: ``[base + offset]``."""

    base: Operand
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """Operands in braces or parentheses."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor map and coordinates: ``[map, {x, y}]``."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations: ``a|b``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """A predicate that is negated."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """A destination that nothing reads: ``_``."""


Operand: TypeAlias = (
    Reg | Imm | Special | Symbol | Slot | KernelParam | Place | Vector | Tensor | Pair | Not | Sink
)


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the source, and where the function that it belongs to was inlined."""

    file: str
    line: int
    outer: Loc | None = None


@dataclass(frozen=True, slots=True)
class Instr:
    """An instruction: its name in parts, operands, guard, and where it is from.

    ``at`` is its line in the PTX.  ``guard`` is a register and whether it is negated.
    """

    op: str
    mods: tuple[str, ...]
    args: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None
    loc: Loc | None
    at: int

    @property
    def name(self) -> str:
        """The whole name, such as ``ld.global.f32``."""
        return ".".join((self.op, *self.mods))


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a space of memory; one of size 0 gets its size with the launch.

    ``refers`` are the addresses in its value: at which byte, of what, and how far from it.
    ``kind`` is the type of its elements.
    """

    space: str
    name: str
    align: int
    size: int
    init: bytes = b""
    refers: tuple[tuple[int, str, int], ...] = ()
    kind: str = ""


@dataclass(slots=True)
class Function:
    """A kernel (``entry``) or a function; ``regs`` are the types of its registers.

    ``block`` are the threads of a block, along three axes, that the text asks for or allows.
    """

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list[Variable])
    returns: list[Variable] = field(default_factory=list[Variable])
    regs: list[str] = field(default_factory=list[str])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    instrs: list[Instr] = field(default_factory=list[Instr])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    defined: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] | None = None


@dataclass(slots=True)
class Module:
    """Functions and variables by name; ``debug``: nothing was optimised.

    ``unset``: lines of the source at which a variable is read that no path has set, and its name.
    ``attempts``: how often more of what is for the host was left out of the source.
    """

    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    debug: bool = False
    unset: tuple[tuple[int, str], ...] = ()
    attempts: int = 0

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of what can be launched."""
        return tuple(f.name for f in self.functions.values() if f.entry)


def is_known(modifier: str) -> bool:
    """Return whether a modifier of some instruction has this name.

    >>> is_known("ftz"), is_known("e4m3x2"), is_known("shared::cta"), is_known("frob")
    (True, True, True, False)
    """
    return modifier in _KNOWN or _FORMED.match(modifier) is not None


def unknown(ins: Instr, why: str = "") -> DidymaError:
    """Return the error for an instruction that the engine does not run, with its lines."""
    source = f", of {ins.loc.file}:{ins.loc.line}" if ins.loc else ""
    return DidymaError(
        "unknown-instruction", f"line {ins.at} of the PTX{source}",
        got=f"{ins.name}{': ' if why else ''}{why}", want="an instruction that engine ptx runs",
        help="compile for an older architecture, or leave the instruction out",
    )  # fmt: skip


def registers(operands: tuple[Operand, ...]) -> frozenset[int]:
    """Return the numbers of all registers that operands name."""
    found: set[int] = set()
    for o in operands:
        match o:
            case Reg(i):
                found.add(i)
            case Vector(parts) | Tensor(parts):
                found |= registers(parts)
            case Pair(a, b):
                found |= registers((a, b))
            case Place(base) | Not(base):
                found |= registers((base,))
            case _:
                pass
    return frozenset(found)
