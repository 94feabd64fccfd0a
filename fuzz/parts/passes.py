"""Which passes a compile runs, what a pass of a caller's may do, and who takes over functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from didyma.codegen import plugins
from didyma.codegen.options import GraphOptions, KernelOptions, Options
from didyma.codegen.passes.manager import BEFORE, Pass, Rewrite, chosen, plain, user_pass
from didyma.codegen.routines import Routine, hand_over
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.told import code_of, differ, registered
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, Function, Module
from didyma.refimpl.ir.text import parse_module

NAMES = ("tidy", "inline", "sink", "hoist", "blocks", "rows")
MODULE = """module {
  func @main(%x: f32[2, 3], %z: f32[2, 3]) -> (%y) {
    %y = add(%x, %z) : f32[2, 3]
  }
}"""
FUNCTION = """  func @f{k}(%x: f32[4]) -> (%y){attrs} {{
    %y = negative(%x) : f32[4]
  }}
"""
MARKS = ("Primitive=1", "Primitive=1", "Primitive=1, reshape_only=1", 'Compiler="other"', "")


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with the choice of passes, a pass of a caller's, or a handing over."""
    del engine
    yield from r.choice((_chosen, _chosen, _user_pass, _handed_over))(r)


def _unheard(decision: str, about: str) -> None:
    del decision, about


def _nothing(m: Module) -> Module:
    return m


def _chosen(r: Random) -> Iterator[str]:
    """Passes run in their order: those of a level that are wanted, those required, and others."""
    names: list[str] = [*r.sample(NAMES, r.randint(1, 5))]
    names.insert(r.randint(0, len(names)), BEFORE)
    passes, needs = list[Pass](), dict[str, tuple[int, int]]()
    instead = dict[str, str]()
    for name in names:
        level, outputs = r.randint(0, 3), r.choice((1, 1, 3))
        needs[name] = level, outputs
        passes.append(_pass(name, level, outputs))
    if r.random() < 0.5:
        of = r.choice(names)
        instead["plain"] = of
        where = r.randint(0, len(passes))
        passes.insert(where, Pass("plain", plain(_nothing), unless=of))
        names.insert(where, "plain")
    known = r.sample(names, r.randint(0, min(2, len(names))))
    off = [n for n in r.sample(names, r.randint(0, 2)) if n not in known]
    own = [_nothing] * r.choice((0, 0, 1, 2))
    options = GraphOptions(level=r.randint(0, 3), outputs=r.choice((2, 4)), required=tuple(known),
                           disabled=tuple(off), passes=tuple(own))  # fmt: skip
    what = f"{options.level}, required {known}, disabled {off} of {needs} and {instead}"
    needed = [n for n in off if n in instead or not needs[n][0]]
    if needed:
        yield from differ(code_of(chosen, passes, options), "bad-option", f"passes for {what}")
        return
    runs = {
        n for n, (level, outputs) in needs.items()
        if n in known or (n not in off and level <= options.level and outputs <= options.outputs)
    }  # fmt: skip
    runs |= {n for n, of in instead.items() if of not in runs}
    want = [n for n in names if n in runs]
    before = [n for n in names[: names.index(BEFORE)] if n in runs]
    want[len(before) : len(before)] = ["_nothing"] * len(own)
    got = [p.name for p in chosen(passes, options)]
    yield from differ(got, want, f"passes for {what}")
    for path in ("required", "disabled"):
        strange = GraphOptions(**{path: ("nowhere",)})  # type: ignore[arg-type]  # names of passes
        yield from differ(code_of(chosen, passes, strange), "unknown-pass", f"{path} = nowhere")
    if known:
        both = GraphOptions(required=tuple(known), disabled=tuple(known[:1]))
        yield from differ(code_of(chosen, passes, both), "bad-option", f"{known[0]} is both")


def _pass(name: str, level: int, outputs: int) -> Pass:
    """Return a pass of a level, which is wanted where the option ``outputs`` is so large."""
    return Pass(name, plain(_nothing), level, lambda options: options.outputs >= outputs)


def _user_pass(r: Random) -> Iterator[str]:
    """A pass returns a module that obeys the laws and has the types of the one before."""
    before = parse_module(MODULE)
    swapped = parse_module(MODULE.replace("add(%x, %z)", "add(%z, %x)"))

    def returning(found: object) -> object:
        def run(m: Module) -> object:
            del m
            return found

        return run

    def raising(m: Module) -> Module:
        raise KeyError("no")

    wrong: Sequence[tuple[str, object]] = (
        ("", returning(swapped)), ("", returning(before)), ("bad-pass", returning(None)),
        ("bad-pass", returning("text")), ("bad-pass", raising), ("bad-pass", 3),
        ("unknown-pass", "nobody_has_this_name"),
        ("bad-pass", returning(parse_module(MODULE.replace("f32[2, 3]", "f32[3, 2]")))),
        ("bad-pass", returning(parse_module(MODULE.replace("(%y)", "(%y, %x)")))),
        ("bad-pass", returning(parse_module(MODULE.replace(", %z: f32[2, 3]", "")
                                            .replace("%z)", "%x)")))),
    )  # fmt: skip
    code, given = r.choice(wrong)

    def made() -> Module:
        run: Rewrite = user_pass(given).run  # type: ignore[arg-type]  # what callers may give
        return run(before, Options(), _unheard)

    yield from differ(code_of(made), code, f"{given} as a pass")
    if not code:
        yield from differ(made() in (swapped, before), True, "what a pass makes is kept")


@dataclass(frozen=True, slots=True)
class _Suits:
    """Suits functions of some names."""

    names: frozenset[str]

    def __call__(self, f: Function) -> bool:
        return f.name in self.names


def _handed_over(r: Random) -> Iterator[str]:
    """The first routine that suits a Primitive function takes it over, unless a choice says not."""
    marks = [r.choice(MARKS) for _ in range(4)]
    names = [f"f{k}" for k in range(len(marks))]
    text = "".join(
        FUNCTION.format(k=k, attrs=f" attrs({m})" if m else "") for k, m in enumerate(marks)
    )
    calls = "".join(f"    %y{k} = call @f{k}(%x) : f32[4]\n" for k in range(len(marks)))
    results = ", ".join(f"%y{k}" for k in range(len(marks)))
    m = parse_module(
        f"module {{\n{text}  func @main(%x: f32[4]) -> ({results}) {{\n{calls}  }}\n}}"
    )
    every = [
        Routine(name, _Suits(frozenset(r.sample(names, r.randint(0, 3)))), abs)
        for name in r.sample(("lapack", "fftw", "blis"), r.randint(0, 3))
    ]
    choices = dict[str, str]()
    for name in names:
        if r.random() < 0.3:
            choices[name] = r.choice([*(x.name for x in every), "pointwise"])
    told = " | ".join(f"{k}: {v}()" for k, v in choices.items())
    options = Options(graph=GraphOptions(routines=tuple(x.name for x in every)),
                      kernels=KernelOptions(choices=told))  # fmt: skip
    with registered(plugins.ROUTINES, {x.name: x for x in every}):
        found = hand_over(m, options, _unheard)
    want = dict[str, str]()
    for name, mark in zip(names, marks, strict=True):
        suits = [x.name for x in every if x.suits(m.functions[int(name[1:])])]
        suits = [n for n in suits if choices.get(name, n) == n]
        if mark == "Primitive=1" and suits:
            want[name] = suits[0]
        elif mark.startswith("Compiler"):
            want[name] = "other"
    got = {f.name: f.attr[COMPILER] for f in found.functions if COMPILER in f.attr}
    yield from differ(got, want, f"who runs functions of {marks} with {told!r}")
    kept = {f.name for f in found.functions if PRIMITIVE in f.attr}
    left = {n for n, k in zip(names, marks, strict=True) if "Primitive" in k} - want.keys()
    yield from differ(kept, left, f"Primitive functions that are left of {marks}")
    bodies = [(f.name, f.params, f.nodes, f.results) for f in found.functions]
    before = [(f.name, f.params, f.nodes, f.results) for f in m.functions]
    yield from differ(bodies, before, "bodies after a handing over")
