"""A launch of plain CUDA C on engine ``simt``, beside what ``ptx`` found.

The two share no code of their checks, so where one alone finds a fault, one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.ptx.sanitize import Argument, Sanitized
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.simt import Simt
from didyma.judging.beside import launched
from didyma.refimpl.errors import DidymaError

_MOST = 1 << 21  # instructions of threads on ``ptx``, beyond which ``simt`` would take long
_COMMON = frozenset(("out-of-bounds", "misaligned", "race", "barrier-divergence"))


@dataclass(frozen=True, slots=True)
class Second:
    """What ``simt`` says: why it does not run the kernel, or else how it differs from ``ptx``."""

    outside: str = ""
    differs: str = ""


def second(
    source: Source,
    kernel: str,
    shape: Shape,
    args: Sequence[Argument],
    shared: int,
    done: Sanitized,
) -> Second:
    """Run a launch on ``simt``, unless its text is more than plain C or it runs long.

    What both engines look for is compared: faults of accesses, races and barriers.
    """
    if source.file.endswith(".ptx") or "<" in kernel:
        return Second("PTX, or an instance of a template")
    if done.instructions > _MOST * done.schedules or {f.kind for f in done.faults} & {"hang"}:
        return Second("a long launch")
    if any(a.fields for a in args):
        return Second("a structure")
    try:
        text = plain(source.text, kernel, shared)
        launched(Simt(rounds=_MOST), text, {a.name: a for a in args}, shape)
    except Outside as e:
        return Second(str(e))
    except KernelFault as e:
        twins = any(f.kind == "same-value" for f in done.findings)
        own = [f for f in e.faults if f.kind in _COMMON and not (twins and f.kind == "race")]
        if own and not done.faults:
            f = own[0]
            return Second("", f"engine simt finds what ptx does not: {f.kind}: {f.detail}")
        return Second()
    except DidymaError as e:
        return Second(e.code)
    lost = [f for f in done.faults if f.kind in _COMMON]
    if lost:
        return Second("", f"engine simt does not find the {lost[0].kind} of line {lost[0].line}")
    return Second()
