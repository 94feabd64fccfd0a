"""Kernels that a caller hands to a compile, each for a Primitive function that it claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from didyma.codegen import intrinsics
from didyma.codegen.emit import dynamic
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.text_kernel import Head, Reader
from didyma.codegen.options import Options
from didyma.codegen.schedule import schedule
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import Module, structural_hash
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel, TextKernel
from didyma.refimpl.ir.loop import Buffer, Const, For, LoopKind, PrimFunc, Stmt, Store, Var
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.verify import kernel as laws


def claimed(
    m: Module,
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, TextKernel],
    target: Target = PORTABLE,
) -> dict[str, ClaimedKernel]:
    """Return the kernels of text by the function that each claims.

    ``m`` is a fused module and ``loops`` the loop programs of its Primitive functions.  A key of
    ``kernels`` is the name of such a function or its ``structural_hash``.

    Errors: ``unknown-primitive`` for a key that names no function, ``bad-kernel`` for a text that
    is wrong by itself or for its function, ``target-lacks``, ``P-text``.
    """
    if not kernels:
        return {}
    named = {f.name: structural_hash(f) for f in m.functions if f.name in loops}
    by_key = {**{h: name for name, h in named.items()}, **{name: name for name in named}}
    found: dict[str, ClaimedKernel] = {}
    for key, text in kernels.items():
        if key not in by_key:
            known = ", ".join(f"{name} ({h})" for name, h in named.items())
            raise DidymaError(
                "unknown-primitive", key, got=key,
                want=f"a Primitive function of the program: {known or 'there is none'}",
            )  # fmt: skip
        name = by_key[key]
        if name in found:
            raise DidymaError(
                "bad-kernel", key, got=f"a second kernel for {name}", want="one kernel a function"
            )
        found[name] = claim(text, loops[name], f"the kernel for {key}", target)
    return found


def claim(text: TextKernel, loop: PrimFunc, where: str, target: Target = PORTABLE) -> ClaimedKernel:
    """Return a text as the kernel of a function with these loops; ``where`` is for errors.

    Errors: ``bad-kernel``, ``target-lacks``, ``P-text``.
    """
    known = intrinsics.given(text.intrinsics)
    reader = Reader(text.source, where, intrinsics.table(known), target)
    head = reader.head()
    if (asked := dynamic.nbytes(text.source)) > target.dynamic:
        raise DidymaError(
            "target-lacks", where, got=f"{asked} bytes of shared memory",
            want=f"at most {target.dynamic}, which a block has on the {target.name} target",
        )  # fmt: skip
    if not 0 < head.cluster <= target.cluster:
        raise DidymaError(
            "target-lacks", where, got=f"clusters of {head.cluster} blocks",
            want=f"1 to {target.cluster}, which a cluster has on the {target.name} target",
        )  # fmt: skip
    if isinstance(across := text.grid[0], int) and across % head.cluster:
        raise DidymaError(
            "bad-kernel", where, got=f"{across} blocks along x in clusters of {head.cluster}",
            want="whole clusters",
        )  # fmt: skip
    fresh = _apart(text, loop)
    made = ClaimedKernel(fresh, loop, tuple(v for v in loop.dims if v.name in head.symbols))
    _match(reader, head, text, made)
    order = {v.name: v for v in loop.dims}
    made = ClaimedKernel(fresh, loop, tuple(order[s] for s in head.symbols))
    laws.verify(made, target)
    return made


def launched(k: ClaimedKernel, options: Options) -> tuple[Kernel, ...]:
    """Return the kernels that a launch of a kernel of text takes: those that clear come first."""
    zeros = [b for b in k.text.workspace if b.name in k.text.zeroed]
    return (*(x for b in zeros for x in schedule(_cleared(b, k.meaning), options)), k)


def _cleared(b: Buffer, loop: PrimFunc) -> PrimFunc:
    """Return a function that stores zeros to a buffer; its name begins with that of another."""
    index = tuple(Var(f"i{n}") for n in range(len(b.shape)))
    body: Stmt = Store(b.name, index, Const(b.dtype.numpy.type(0).item(), b.dtype))
    for i, size in reversed([*zip(index, b.shape, strict=True)]):
        body = For(i, ix.of_dim(size), body, LoopKind.PARALLEL)
    free = dims.free(b.shape)
    used = tuple(v for v in loop.dims if v.name in free)
    return PrimFunc(f"{loop.name}_clears_{b.name}", (b,), (b.name,), body, used)


def _apart(text: TextKernel, loop: PrimFunc) -> TextKernel:
    """Return the text with names for its workspace that no buffer of the function has."""
    taken = {b.name for b in loop.params}
    names = {b.name: _free(b.name, taken) for b in text.workspace}
    return replace(
        text,
        workspace=tuple(Buffer(names[b.name], b.dtype, b.shape) for b in text.workspace),
        intrinsics=intrinsics.given(text.intrinsics),
        zeroed=tuple(names.get(z, z) for z in text.zeroed),
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _match(reader: Reader, head: Head, text: TextKernel, k: ClaimedKernel) -> None:
    """Refuse a head that does not take the buffers of the claim, in their order and dtypes."""
    line = reader.source[: reader.source.index(head.name)].count("\n") + 1
    names = [*text.reads, *text.writes, *(b.name for b in text.workspace)]
    got = [name for name, _, _ in head.pointers]
    if got != names:
        want = f"{', '.join(names)}: what it reads, writes and works in"
        raise reader.error(line, f"the buffers {', '.join(got) or 'none'}", want)
    operands, results = len(k.meaning.inputs), len(k.meaning.outputs)
    if (len(text.reads), len(text.writes)) != (operands, results):
        got_counts = f"{len(text.reads)} read and {len(text.writes)} written buffers"
        raise reader.error(line, got_counts, f"{operands} and {results}, as @{k.name} has")
    for (name, kind, const), b in zip(head.pointers, k.params, strict=True):
        if kind != c_type(b.dtype):
            want = f"{c_type(b.dtype)} *{name}, for {b.name} of @{k.name}"
            raise reader.error(line, f"{kind} *{name}", want)
        if const and b.name in k.outputs:
            raise reader.error(line, f"const {kind} *{name}", f"{kind} *{name}, which is written")
    if (maps := tuple(m.name for m in text.maps)) != head.maps:
        has, described = (", ".join(some) or "none" for some in (head.maps, maps))
        raise reader.error(line, f"the maps {has}", f"{described}, as the kernel says")
    if idle := [n for n in head.idle if n not in {m.buffer for m in text.maps}]:
        want = f"a store to {idle[0]}, which is a result or workspace"
        raise reader.error(line, f"no statement that writes {idle[0]}", want)
    known = {v.name for v in k.meaning.dims}
    for s in head.symbols:
        if s not in known:
            want = f"a symbol of @{k.name}: {', '.join(sorted(known)) or 'it has none'}"
            raise reader.error(line, f"the symbol {s}", want)
