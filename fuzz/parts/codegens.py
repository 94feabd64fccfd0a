"""Templates and codegens of a caller's own: what they offer, in which order, and what is refused.

A template's space, its model and its blocks are tables of numbers, so the points that fit in a
target, and their order, follow from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

from didyma.codegen import codegens
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.schedule.recipes.point import Point
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.graph import Function, Param, attrs
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Block, Buffer, PrimFunc
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import DType, TensorType

Values = Mapping[str, int]
THREADS = (1, 32, 128, 1024, 1056)  # of a block; the last are more than a target has
SHARED = (0, 4096, 1 << 20)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A template with its rows: values, their cost, and whether a block of them fits."""

    template: Template
    rows: tuple[tuple[Values, int, bool], ...]
    suits: bool

    def points(self) -> list[Point]:
        """Return the points that fit, the cheapest first, of equal ones by their values."""
        some = [(cost, tuple(v.values()), v) for v, cost, fits in self.rows if fits]
        return [Point.of(self.template.name, **v) for _, _, v in sorted(some, key=lambda x: x[:2])]


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a template, or with several codegens of a compile."""
    del engine
    asked = _asked()
    yield from r.choice((_of_template, _of_several, _guarded))(r, asked)


def _asked() -> Asked:
    t = TensorType(DType.F32, (4,))
    buffers = Buffer("x", DType.F32, (4,)), Buffer("y", DType.F32, (4,))
    f = Function("f", (Param("x", t),), (), ("x",), attrs({"Primitive": 1}))
    return Asked(f, PrimFunc("f", buffers, ("y",), Block(())), PORTABLE)


def _text(name: str, values: Values, threads: int) -> TextKernel:
    return TextKernel(f"{name} {dict(values)}", ("x",), ("y",), (1, 1, 1), (threads, 1, 1))


def _drawn(r: Random, name: str, target: Target) -> _Drawn:
    names = r.sample(("tile", "lanes", "stages"), r.randint(0, 2))
    space = {n: tuple(r.sample(range(1, 9), r.randint(1, 3))) for n in names}
    suits, by_block = r.random() < 0.8, r.random() < 0.7
    every = [dict(zip(space, vs, strict=True)) for vs in product(*space.values())]
    costs = {str(v): r.randint(0, 3) for v in every}
    blocks = {str(v): (r.choice(THREADS), r.choice(SHARED)) for v in every}

    def fits(v: Values) -> bool:
        threads, shared = blocks[str(v)]
        return threads <= target.threads and (not by_block or shared <= target.dynamic)

    made = Template(
        name,
        lambda asked: space if suits else None,
        lambda asked, v: costs[str(dict(v))],
        lambda asked, v: _text(name, dict(sorted(v.items())), blocks[_key(v, space)][0]),
        (lambda asked, v: blocks[_key(v, space)]) if by_block else None,
    )
    rows = tuple((v, costs[str(v)], fits(v)) for v in every) if suits else ()
    return _Drawn(made, rows, suits)


def _key(values: Values, space: Mapping[str, object]) -> str:
    """Return values as a word, in the order of a space; those of a point are sorted."""
    return str({n: values[n] for n in space})


def _of_template(r: Random, asked: Asked) -> Iterator[str]:
    """A template offers what fits by its model, and refuses all other points."""
    d = _drawn(r, "own", asked.target)
    t = r.choice((d.template, d.template.guarded()))
    want, rows = d.points(), d.rows
    yield from differ([*t.points(asked)], want, f"points of {rows}")
    costs = [cost for _, cost, fits in rows if fits]
    yield from differ([*t.costs(asked)], costs, f"costs of {rows}")
    if want:
        first = t.render(asked, want[0].table)
        yield from differ(t.kernel(asked), first, "the first kernel")
    else:
        code = "target-lacks" if rows else ""
        yield from differ(code_of(t.kernel, asked), code, f"a kernel of {rows}")
    for values, _, fits in rows:
        point = Point.of("own", **values)
        code = code_of(t.at, asked, point)
        yield from differ(code, "" if fits else "target-lacks", f"{point} of {rows}")
    some = dict(rows[0][0]) if rows else {}
    strange = r.choice(({**some, "more": 1}, {**some, **dict.fromkeys(some, 77)} or {"more": 2}))
    yield from differ(code_of(t.at, asked, Point.of("own", **strange)), "bad-choice", f"{strange}")


@dataclass(frozen=True, slots=True)
class _Plain:
    """A codegen that makes one kernel, or none."""

    name: str
    made: TextKernel | None

    def kernel(self, asked: Asked) -> TextKernel | None:
        del asked
        return self.made


def _of_several(r: Random, asked: Asked) -> Iterator[str]:
    """The first codegen of the options that makes a kernel makes it."""
    every, offered = list[Any](), list[list[Point]]()
    kernels = dict[Point, TextKernel]()
    for k in range(r.randint(0, 3)):
        name = f"own{k}"
        if r.random() < 0.5:
            text = _text(name, {}, 32) if r.random() < 0.6 else None
            every.append(_Plain(name, text))
            offered.append([Point.of(name)] if text else [])
            kernels |= {Point.of(name): text} if text else {}
        else:
            d = _drawn(r, name, asked.target)
            if d.rows and not d.points():
                continue  # it is refused as a whole
            every.append(d.template)
            offered.append(d.points())
            kernels |= {p: d.template.render(asked, p.table) for p in d.points()}
    options = Options(kernels=KernelOptions(codegens=tuple(every)))
    got = [[*codegens.points(c, asked)] for c in codegens.given(options)]
    yield from differ(got, offered, f"points of {every}")
    flat = [p for row in offered for p in row]
    first = next(iter(flat), None)
    yield from differ(codegens.first(asked, options), first, f"the first point of {every}")
    made = kernels.get(first) if first else None
    yield from differ(codegens.kernel(asked, options), made, f"the first kernel of {every}")
    for p in flat:
        yield from differ(codegens.at(p, asked, options), kernels[p], f"the kernel of {p}")
    for c, row in zip(every, offered, strict=True):
        point = Point.of(c.name, strange=1)
        code = code_of(codegens.at, point, asked, options)
        yield from differ(code, "bad-choice", f"{point} beside {row}")
    yield from differ(codegens.at(Point.of("pointwise"), asked, options), None, "a recipe's kernel")


def _raising(*given: object) -> Any:
    raise ValueError(given)


def _guarded(r: Random, asked: Asked) -> Iterator[str]:
    """Whatever is wrong with what a template's functions return names the template."""
    d = _drawn(r, "own", asked.target)
    while not d.points() or d.template.block is None:
        d = _drawn(r, "own", asked.target)
    point = d.points()[0]

    def returning(value: object) -> Callable[..., Any]:
        return lambda *given: value

    nan = float("nan")
    wrong: Mapping[str, tuple[object, ...]] = {
        "space": ({"a": (1, -2)}, {"1a": (1,)}, {"a": "12"}, {1: (1,)}, 3, {"a": 2}, {"a": (1.5,)}),
        "cost": ("1", None, nan), "render": (None, "text"),
        "block": ((1, 2, 3), (1, -1), 32, None, (True, 1)),
    }  # fmt: skip
    member = r.choice([*wrong])
    changed: dict[str, Any] = {member: r.choice((_raising, returning(r.choice(wrong[member]))))}
    t = replace(d.template, **changed).guarded()
    code = code_of(lambda: [*t.points(asked), t.at(asked, point)])
    yield from differ(code, "failed-part", f"{member} of a template that is wrong")
    good = d.template.guarded()
    got = [*good.points(asked)], good.at(asked, point)
    want = d.points(), d.template.render(asked, point.table)
    yield from differ(got, want, "what a template offers that is right")
    other = Template("own", returning(None), _raising, _raising, best=returning("yes")).guarded()
    assert other.best is not None, "it was given"
    yield from differ(code_of(other.best, asked), "failed-part", "what is best by a word")
