"""Kernels as CUDA C in the project's subset: C99-like, without headers, of named intrinsics.

Above each kernel stands what it computes: its values in the graph and its loop program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from didyma.codegen import intrinsics
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.names import RESERVED_FOR_KERNELS, c_names
from didyma.codegen.emit.remarks import remarks
from didyma.codegen.emit.statements import Statements
from didyma.codegen.emit.text_kernel import Head, Reader, renamed
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expr import ONE, index, mul, of_dim
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel, KernelText, Signature
from didyma.refimpl.ir.lines import launches_of, walk
from didyma.refimpl.ir.loop import AXES, RANK, Const, Expr, PrimFunc, Stmt
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.program import Program

INDENT = "  "
WIDTH = 100


def emit(
    kernels: Sequence[Kernel],
    shared: Mapping[str, Collection[str]] | None = None,
    *,
    contract: bool = True,
) -> KernelText:
    """Return the text of the kernels, one ``extern "C" __global__ void`` each, in order.

    ``shared`` names, by kernel, parameters that may have each other's bytes: they are not
    ``__restrict__``, nor are those of a PrimFunc with ``noalias=false``.  A PrimFunc that binds no
    loop becomes a kernel of one thread; a kernel of text stays as it is, but for its name.
    ``contract`` lets compilers fuse products and sums.
    TypeError for statements that no kernel may hold.
    """
    lines: list[str] = []
    origins: list[tuple[int, Stmt]] = []
    signatures: list[Signature] = []
    more: dict[str, Intrinsic] = {}
    names = c_names(RESERVED_FOR_KERNELS)
    for f in kernels:
        name = names.fresh(f.name)
        if isinstance(f, ClaimedKernel):
            known = intrinsics.given(f.text.intrinsics)
            more.update((x.name, x) for x in known)
            head = Reader(f.text.source, f.name, intrinsics.table(known)).head()
            signatures.append(_text_signature(f, name, head))
            lines += remarks(f.meaning)
            lines += [*renamed(f.text.source, head.name, name).split("\n"), ""]
            continue
        written = written_out(f)
        f = replace(f, params=written.params, outputs=written.outputs)
        writer = _written(written)
        more.update(writer.expressions.own)
        signature = _signature(f, name, writer)
        signatures.append(signature)
        lines += remarks(f)
        lines += _head(f, signature, writer, (shared or {}).get(f.name, ()))
        for line in writer.lines.all():
            lines.append(INDENT * line.depth + line.text)
            if line.origin is not None:
                origins.append((len(lines), line.origin))
        lines += ["}", ""]
    return KernelText(
        "\n".join(lines), tuple(signatures), tuple(origins), (*more.values(),), contract
    )


def _written(f: PrimFunc) -> Statements:
    """Return a writer that has written a function, whose variables hide no function it calls."""
    taken: Collection[str] = ()
    while True:
        writer = Statements.of(f, taken)
        with writer.lines.indented():
            writer.write(f.body)
        called = intrinsics.table(writer.expressions.own.values())
        if {*called} == {*taken}:
            return writer
        taken = called


def _signature(f: PrimFunc, name: str, writer: Statements) -> Signature:
    buffers = writer.expressions.buffers

    def extent(axis: str) -> Expr:
        return writer.axes.get(axis, ONE)

    def threads(axis: str) -> int:
        e = extent(axis)
        assert isinstance(e, Const), f"{f.name}: {axis} has no constant extent"
        return int(e.value)

    cluster = threads(RANK)
    x, y, z = map(extent, AXES[:3])
    return Signature(
        name=name,
        buffers=tuple((buffers[b.name].name, b.dtype) for b in f.params),
        sizes=tuple(of_dim(dims.mul(*b.shape)) for b in f.params),
        outputs=tuple(buffers[o].name for o in f.outputs),
        dims=tuple(d.name for d in f.dims),
        grid=(mul(x, index(cluster)), y, z),
        block=(threads("threadIdx.x"), threads("threadIdx.y"), threads("threadIdx.z")),
        scalars=tuple((v.name, v.dtype) for v in f.scalars),
        cluster=cluster,
    )


def _text_signature(k: ClaimedKernel, name: str, head: Head) -> Signature:
    """Return the signature of a kernel of text, whose buffers have the names that the text says."""
    pairs = list(zip((n for n, _, _ in head.pointers), k.params, strict=True))
    x, y, z = map(of_dim, k.text.grid)
    return Signature(
        name=name,
        buffers=tuple((n, b.dtype) for n, b in pairs),
        sizes=tuple(of_dim(dims.mul(*b.shape)) for _, b in pairs),
        outputs=tuple(n for n, b in pairs if b.name in k.outputs),
        dims=head.symbols,
        grid=(x, y, z),
        block=k.text.block,
        cluster=head.cluster,
        maps=k.text.maps,
    )


def in_place(p: Program) -> dict[str, set[str]]:
    """Return, by kernel, the parameters that some launch of a program lets share bytes."""
    found: dict[str, set[str]] = {}
    kernels = p.kernel
    for s in (s for q in (*p.functions, p) for s in walk(q.lines)):
        for x in (x for x in launches_of(s) if x.inplace):
            names = {a: b.name for a, b in zip(x.args, kernels[x.kernel].params, strict=True)}
            pairs = (names[v] for pair in x.inplace for v in pair)
            found.setdefault(x.kernel, set()).update(pairs)
    return found


def _head(f: PrimFunc, s: Signature, writer: Statements, shared: Collection[str]) -> list[str]:
    params: list[str] = []
    for b, (name, _) in zip(f.params, s.buffers, strict=True):
        const = "" if b.name in f.outputs else "const "
        star = "*" if b.name in shared or not f.noalias else "*__restrict__ "
        params.append(f"{const}{c_type(b.dtype)} {star}{name}")
    params += [f"i64 {writer.expressions.variables[d].text}" for d in s.dims]
    params += [f"{c_type(d)} {writer.expressions.variables[v].text}" for v, d in s.scalars]
    bound = s.block[0] * s.block[1] * s.block[2]
    lines = [f'extern "C" __global__ void __launch_bounds__({max(bound, 1)})']
    if s.cluster > 1:
        lines[0] += f" __cluster_dims__({s.cluster}, 1, 1)"
    one = f"{s.name}({', '.join(params)}) {{"
    if len(one) <= WIDTH:
        return [*lines, one]
    return [*lines, f"{s.name}(", *(f"{INDENT * 2}{p}," for p in params[:-1]),
            f"{INDENT * 2}{params[-1]}) {{"]  # fmt: skip
