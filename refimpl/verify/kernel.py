"""The laws of kernels: those of ``loop``, and that a kernel of text fits its meaning."""

from __future__ import annotations

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import ClaimedKernel, Images, Kernel
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.verify import loop

MOST_ROWS, ELEMENT = 256, 2  # of a box, and bytes of what it has
FAR, MOST_STRIDE = 128, 8  # of the corners of images, and from pixel to pixel


def verify(k: Kernel, target: Target = PORTABLE) -> None:
    """Raise DidymaError at the first broken law; ``target`` sets the limits of a block."""
    if not isinstance(k, ClaimedKernel):
        loop.verify(k, target)
        return
    loop.verify(k.meaning, target)
    t, meaning = k.text, k.meaning
    rows = (
        ("reads", len(t.reads), len(meaning.inputs)),
        ("writes", len(t.writes), len(meaning.outputs)),
    )
    for what, own, wanted in rows:
        if own != wanted:
            raise _broken(k, f"{what} {own} buffers", f"{wanted}, as its meaning does")
    names = [*t.reads, *t.writes, *(b.name for b in t.workspace)]
    params = [b.name for b in k.params]
    for some in (names, params):
        if len(set(some)) < len(some):
            raise _broken(k, f"buffers {', '.join(some)}", "one buffer of a name")
    if strange := [z for z in t.zeroed if z not in {b.name for b in t.workspace}]:
        want = ", ".join(b.name for b in t.workspace) or "nothing: it has no workspace"
        raise _broken(k, f"{', '.join(strange)} to be zeros", want)
    described = dict(zip((*t.reads, *t.writes), meaning.params, strict=True))
    for m in t.maps:
        if m.buffer not in described or described[m.buffer].dtype.nbytes != ELEMENT:
            want = f"one of {', '.join(described) or 'none'}, with elements of {ELEMENT} bytes"
            raise _broken(k, f"a map of {m.buffer}", want)
        if not 1 <= m.rows <= MOST_ROWS:
            raise _broken(k, f"boxes of {m.rows} rows by {m.name}", f"1 to {MOST_ROWS}")
        if m.images is not None and not _walks(m.images):
            got = f"images from {m.images.lower} to {m.images.upper} by {m.images.strides}"
            want = f"corners from {-FAR} to {FAR - 1} away, and strides of 1 to {MOST_STRIDE}"
            raise _broken(k, f"{got} by {m.name}", want)
    if not target.has_room(t.block):
        got = f"a block of {' x '.join(map(str, t.block))} threads"
        most = " x ".join(map(str, target.block))
        raise _broken(k, got, f"1 to {target.threads} threads, at most {most}")
    pairs = zip(t.grid, target.grid, strict=True)
    if any(isinstance(n, int) and not 0 <= n <= most for n, most in pairs):
        got, want = (" x ".join(map(str, grid)) for grid in (t.grid, target.grid))
        raise _broken(k, f"a grid of {got} blocks", f"at most {want} blocks, none of them negative")
    if isinstance(t.chain, int) and t.chain < 0:
        raise _broken(k, f"a chain of {t.chain} additions", "0 or more")
    free = {v.name for v in k.dims} - {v.name for v in meaning.dims}
    if free:
        want = f"some of {', '.join(v.name for v in meaning.dims) or 'no dims'}, as its meaning has"
        raise _broken(k, f"dims {', '.join(sorted(free))}", want)


def _walks(images: Images) -> bool:
    near = all(-FAR <= n < FAR for n in (*images.lower, *images.upper))
    return near and all(1 <= n <= MOST_STRIDE for n in images.strides)


def _broken(k: ClaimedKernel, got: str, want: str) -> DidymaError:
    return DidymaError("P-text", f"@{k.name}", got=got, want=want)
