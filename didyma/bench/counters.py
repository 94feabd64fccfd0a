"""What a program does, counted exactly: the same on every machine, however busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import didyma as dd
from didyma.bench.workloads import Workload, arguments, least_bytes
from didyma.codegen.memory.peak import peak
from didyma.codegen.options import Options
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.refimpl.errors import EngineMissing


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a counter counts, for people."""

    name: str
    text: str


MEANINGS: tuple[Meaning, ...] = (
    Meaning("kernels", "kernels that differ"),
    Meaning("launches", "launches of kernels in one call"),
    Meaning("read", "bytes of global memory that threads load"),
    Meaning("written", "bytes of global memory that threads store"),
    Meaning("least", "bytes of inputs and results, which must be moved"),
    Meaning("accesses", "loads and stores of global memory by threads; a wide one counts once"),
    Meaning("statements", "statements that threads execute"),
    Meaning("longest", "statements of the busiest thread, summed over the launches"),
    Meaning("peak", "most bytes of memory that the plan holds at once, inputs excluded"),
    Meaning("text", "characters of the kernels' text"),
    Meaning("registers", "most registers of a thread, of any kernel (NVRTC)"),
    Meaning("spills", "bytes that registers spill, in all kernels (NVRTC)"),
    Meaning("shared", "most bytes of shared memory of a block, of any kernel (NVRTC)"),
)


def count(w: Workload, options: Options, compiler: NvrtcCompiler | None) -> dict[str, int]:
    """Compile a workload at its small size, simulate a call, and count.

    Without a compiler, what only the machine code tells is left out.  Each result has memory of its
    own, as on a GPU, so that a transposition is a kernel.
    """
    options = replace(options, memory=replace(options.memory, views=False))
    program, traffic = w.program(), Traffic()
    exe = dd.compile(program, engine=Simt(traffic=traffic), options=options)
    exe(*arguments(w))
    made = exe.compiled
    found = {
        "kernels": len(traffic.launches),
        "launches": traffic.launches.total(),
        "read": traffic.read.total(),
        "written": traffic.written.total(),
        "least": least_bytes(w),
        "accesses": traffic.accesses.total(),
        "statements": traffic.statements.total(),
        "longest": traffic.longest.total(),
        "peak": peak(made.program, {}),
        "text": len(made.text.source),
    }
    if compiler is not None:
        resources = compiler.compile(made.text).resources
        found["registers"] = max((r.registers for r in resources), default=0)
        found["spills"] = sum(r.spills for r in resources)
        found["shared"] = max((r.shared for r in resources), default=0)
    return found


def compiler() -> NvrtcCompiler | None:
    """Return NVRTC; None where it is not installed."""
    try:
        return NvrtcCompiler()
    except EngineMissing:
        return None


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> Counter[str]:
    """Return by how much each counter that both have grew; those that did not are left out."""
    both = before.keys() & after.keys()
    return Counter({k: after[k] - before[k] for k in both if after[k] > before[k]})
