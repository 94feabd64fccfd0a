"""Count all that a compile makes of a kept program, beside what its domain judges.

A domain judges one level; what its programs become at the others is counted alone, which takes
a fiftieth of a second.  So a change of any stage shows in the kept programs of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from didyma.codegen import apart
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.memory.peak import peak
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, Fused, finished
from didyma.fuzz import counters
from didyma.fuzz.counters import Counters, Sizes
from didyma.fuzz.cpp import judge
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.text import show


def counted(case: Case, made: Fused, base: Options, *, loaders: bool = False) -> Counters:
    """Count what all stages of a compile make of a case, of which ``made`` is there already.

    With ``loaders`` what loads the program from JSON and in C++ is counted, too.  Nothing is
    counted of a case that does not ask for it.  Errors: those of ``finished``.
    """
    if not case.counted:
        return {}
    options = case.options(base)
    c = finished(made, options)
    sizes = {v.name: v.lo for v in c.source.dims} | dict(case.env)
    return of_compiled(c, options, sizes, loaders=loaders)


def of_compiled(c: Compiled, options: Options, sizes: Sizes, *, loaders: bool) -> Counters:
    """Count what all stages of a compile by some options made, at some sizes."""
    nodes = sum(len(f.nodes) for f in c.fused.functions)
    texts = {"graph": show(c.fused), "kernels": c.text.source, "wrapper": c.wrapper}
    texts |= dict(_loaders(c) if loaders else ())
    if reasons := apart.told(c, options):
        texts["apart"] = "\n".join(reasons)
    levels: dict[str, Counters] = {
        "graph": {"nodes": nodes, **counters.of_graph(c.fused, sizes)},
        "kernels": counters.of_kernels((k for ks in c.kernels.values() for k in ks), sizes),
        "program": {"peak": peak(c.program, sizes), **counters.of_lines(c.program)},
    }
    counted = {f"{level}: {name}": n for level, x in levels.items() for name, n in x.items() if n}
    return {**counted, **counters.of_texts(texts)}


def _loaders(c: Compiled) -> Iterator[tuple[str, str]]:
    yield "JSON", program_json(c.program, c.text, {})
    if judge.has_loader(c.program, c.text):
        cpp = judge.written(c.program, c.text)
        yield from (("C++ header", cpp.header()), ("C++ loader", cpp.loader()))
