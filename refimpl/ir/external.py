"""External functions: those marked ``Compiler``, which run outside Didyma and are called by name.

The body of such a function says what every implementation of it must compute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from didyma.refimpl.ir import control
from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.graph import COMPILER, Attrs, Function, Module, attrs, structural_hash


@dataclass(frozen=True, slots=True)
class External:
    """An external function of a module, and how programs call it.

    ``routine`` is the name in the program's ``Extern`` lines: compiler, function, and a hash of
    its body and attributes, so that functions that mean different things have different names.
    ``sizes`` are the symbols whose values the function takes from its caller.
    """

    function: Function
    compiler: str
    routine: str
    sizes: tuple[str, ...]

    @property
    def attrs(self) -> Attrs:
        """The attributes of a call: the function's own, and ``sizes`` where it has symbols."""
        sizes = {"sizes": tuple(symbol(s) for s in self.sizes)} if self.sizes else {}
        return attrs(self.function.attr | sizes)


def externals(m: Module) -> dict[str, External]:
    """Return the external functions of a module by name."""
    if not any(COMPILER in f.attr for f in m.functions):
        return {}
    mentioned = control.mentioned(m)
    hashes: dict[str, str] = {}
    bound: dict[str, frozenset[str]] = {}
    table: dict[str, External] = {}
    for f in m.functions:
        nodes = tuple(control.rename_references(n, hashes) for n in f.nodes)
        hashes[f.name] = structural_hash(replace(f, nodes=nodes))
        runs = [bound[r] for n in f.nodes for r in control.references(n)]
        own = {s for n in f.nodes for s in (*control.binds(n), *control.inner(n))}
        bound[f.name] = frozenset(own.union(*runs))
        if COMPILER in f.attr:
            compiler = str(f.attr[COMPILER])
            routine = f"{compiler}.{f.name}.{hashes[f.name]}"
            sizes = tuple(sorted(mentioned[f.name] - bound[f.name]))
            table[f.name] = External(f, compiler, routine, sizes)
    return table


def alone(m: Module, name: str) -> Module:
    """Return a module whose entry is the function of that name."""
    names = [f.name for f in m.functions]
    return replace(m, functions=m.functions[: names.index(name) + 1])
