"""Which graph passes a compile runs, in which order: levels, required, disabled and user passes.

After TVM's ``PassContext``, as a function of frozen options: nothing is installed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.codegen import plugins
from didyma.codegen.decisions import Heard
from didyma.codegen.options import GraphOptions, Options
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.verify import graph as laws

Rewrite: TypeAlias = Callable[[Module, Options, Heard], Module]
UserPass: TypeAlias = Callable[[Module], Module]
BEFORE = "slices"  # user passes run before it: they see ops, and scans as a graph has them


def _always(options: GraphOptions) -> bool:
    del options
    return True


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of graphs that runs from an optimisation level on, where the options want it.

    A pass of level 0 is one that no compile can do without, and cannot be disabled.  One with
    ``unless`` runs exactly where the pass of that name does not.
    """

    name: str
    run: Rewrite
    level: int = 0
    wanted: Callable[[GraphOptions], bool] = _always
    unless: str = ""


def plain(rewrite: UserPass) -> Rewrite:
    """Return a rewrite that asks for no options and makes no decisions that anyone hears."""

    def run(m: Module, options: Options, heard: Heard) -> Module:
        del options, heard
        return rewrite(m)

    return run


def chosen(passes: Sequence[Pass], options: GraphOptions) -> tuple[Pass, ...]:
    """Return the passes that options run, in order, user passes once graphs are simplified.

    A required pass runs at every level, a disabled one at none.

    Errors: ``unknown-pass``; ``bad-option`` for a pass that is both, or that is disabled though
    compiles need it; ``bad-pass`` and ``broken-plugin`` for user passes.
    """
    known = {p.name: p for p in passes}
    for path, names in (("required", options.required), ("disabled", options.disabled)):
        for name in names:
            if name not in known:
                raise DidymaError(
                    "unknown-pass", f"graph.{path}", got=name, want=f"one of {', '.join(known)}"
                )
    for name in options.disabled:
        if name in options.required or not known[name].level:
            got = "required, too" if name in options.required else "a pass that compiles need"
            raise DidymaError(
                "bad-option", f"graph.disabled = {name}", got=got,
                want=f"some of {', '.join(p.name for p in passes if p.level)}",
            )  # fmt: skip
    runs = {p.name for p in passes if not p.unless and _runs(p, options)}
    runs |= {p.name for p in passes if p.unless and p.unless not in runs}
    own = tuple(user_pass(given) for given in options.passes)
    where = next(i for i, p in enumerate(passes) if p.name == BEFORE)
    order = (*passes[:where], *own, *passes[where:])
    return tuple(p for p in order if p in own or p.name in runs)


def _runs(p: Pass, options: GraphOptions) -> bool:
    if p.name in options.required:
        return True
    return p.level <= options.level and p.wanted(options) and p.name not in options.disabled


def user_pass(given: str | UserPass) -> Pass:
    """Return a pass of a caller's own: a function, or the name of one that is registered.

    Errors: ``unknown-pass``, ``bad-pass`` for what cannot be called, ``broken-plugin``.
    """
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    found: object = plugins.value(plugins.PASSES, given) if isinstance(given, str) else given
    if found is None:
        known = ", ".join(plugins.names(plugins.PASSES)) or "none is registered"
        raise DidymaError("unknown-pass", f"graph.passes = {name}", got=name, want=known)
    if not callable(found):
        raise _bad(name, f"a {type(found).__name__}")

    def run(m: Module) -> Module:
        try:
            made: object = found(m)
        except DidymaError as e:
            e.add_note(f"in the pass {name}")
            raise
        except Exception as e:
            raise _bad(name, f"one that raises {type(e).__name__}: {e}") from e
        if not isinstance(made, Module):
            raise _bad(name, f"one that returns a {type(made).__name__}")
        try:
            laws.verify(made)
        except DidymaError as e:
            e.add_note(f"in what the pass {name} returns")
            raise
        if (after := _signature(made)) != (before := _signature(m)):
            raise _bad(name, f"one that makes {after} of {before}")
        return made

    return Pass(name, plain(run))


def _signature(m: Module) -> str:
    """Return the types of the inputs and the results of a program."""
    params = ", ".join(str(p.type) for p in m.entry.params)
    return f"({params}) -> ({', '.join(map(str, m.entry.result_types()))})"


def _bad(name: str, got: str) -> DidymaError:
    return DidymaError(
        "bad-pass", f"graph.passes = {name}", got=got, want="a function from a module to a module"
    )
