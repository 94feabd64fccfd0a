"""What results in place save on the light models of the onnx wheel.

    python -m tests.bench.inplace [NET ...] [--docs]

Of each net three programs are planned: with a launch for each ONNX node, as runtimes without fusion
have it; with a launch for each op (``graph.fuse=false``); and fused.  The lower bound is the
number of bytes alive at the most crowded line, without results in place and with them.  Weights,
which these models compute from their shapes, are left out.  ``--docs`` writes the table to
``docs/program-memory.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from didyma.codegen.memory.arena.problem import lower_bound
from didyma.codegen.memory.inplace import in_place
from didyma.codegen.memory.values import PlannedValues, static_problem, values_of
from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import compile
from didyma.onnx import load
from didyma.onnx.load import load_model
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Copy, Launch, Line, Program, Return, View
from didyma.refimpl.ir.types import Tensor, TensorType
from tests.bench.page import put, table

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
PAGE = Path(__file__).parents[2] / "docs/program-memory.md"
WANTED = {"squeezenet": 0.63, "inception_v1": 0.73, "resnet50": 0.75, "densenet121": 0.86}


@dataclass(frozen=True, slots=True)
class Row:
    """Bounds of one program of a net, in bytes."""

    net: str
    kind: str
    launches: int
    plain: int
    reused: int
    places: int  # results in place
    seconds: float

    @property
    def ratio(self) -> float:
        """What is left of the bound."""
        return self.reused / self.plain


def lines_of(m: Module, fuse: bool) -> Program:
    """Return the program of a module before it has memory."""
    return compile(m, Options(graph=GraphOptions(fuse=fuse), verify=False), until="order").bare


def by_node(path: Path) -> Program:
    """Return a program in which each node of a model is compiled alone, as if fused."""
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(path.read_bytes()))
    g = model.graph
    known = {v.name: v for v in (*g.input, *g.value_info, *g.output)}
    held = {t.name: t for t in g.initializer}
    types: dict[str, TensorType] = {}
    lines: list[Line] = []
    constants: list[tuple[str, Tensor]] = []
    kernels: list[PrimFunc] = []
    for i, n in enumerate(g.node):
        one = onnx.helper.make_graph(
            [n],
            f"node_{i}",
            [known[a] for a in dict.fromkeys(n.input) if a and a not in held],
            [known[r] for r in n.output if r in known],
            [held[a] for a in dict.fromkeys(n.input) if a in held],
        )
        alone = onnx.helper.make_model(one, opset_imports=model.opset_import)
        part = lines_of(load_model(alone, f"node_{i}"), fuse=True)
        outer = dict(zip(part.inputs, (v.name for v in one.input), strict=True))
        outer |= dict(zip(part.results, (v.name for v in one.output), strict=True))
        name = {v: outer.get(v, f"n{i}_{v}") for v in part.type}
        types |= {name[v]: t for v, t in part.types}
        constants += [(name[v], t) for v, t in part.constants]
        kernels += [replace(loops(k), name=f"n{i}_{k.name}") for k in part.kernels]
        lines += [_renamed(x, name, f"n{i}_") for x in part.lines[:-1]]
    inputs = tuple(v.name for v in g.input if v.name not in held)
    returned = Return(tuple(v.name for v in g.output))
    return Program(
        "net", (), inputs, tuple(constants), tuple(types.items()), tuple(kernels),
        (*lines, returned),
    )  # fmt: skip


def _renamed(line: Line, name: Mapping[str, str], kernel: str) -> Line:
    match line:
        case Launch(k, args):
            return Launch(kernel + k, tuple(name[a] for a in args))
        case View(value, of, offset):
            return View(name[value], name[of], offset)
        case Copy(value, source):
            return Copy(name[value], name[source])
        case _:
            raise TypeError(f"no line of a net: {line}")


def weights(p: Program) -> set[str]:
    """Values that hang on no input: they are the same in every call."""
    kernels = p.kernel
    fixed = {name for name, _ in p.constants}
    for line in p.lines:
        if isinstance(line, View) and line.of in fixed:
            fixed.add(line.value)
        elif isinstance(line, Launch):
            params = kernels[line.kernel].params
            outputs = kernels[line.kernel].outputs
            pairs = list(zip(line.args, (b.name for b in params), strict=True))
            if all(a in fixed for a, b in pairs if b not in outputs):
                fixed.update(line.args)
    return fixed


def measure(net: str, kind: str, p: Program) -> Row:
    """Bounds of a program without results in place and with them."""
    began = time.perf_counter()
    values = values_of(p)
    reused = in_place(p, values.lives)
    spent = time.perf_counter() - began
    fixed = weights(p)

    def bound(v: PlannedValues) -> int:
        return lower_bound(static_problem([b for b in v.buffers if b.name not in fixed]))

    launches = [x for x in reused.lines if isinstance(x, Launch) and not fixed.issuperset(x.args)]
    places = sum(len(x.inplace) for x in launches)
    return Row(net, kind, len(launches), bound(values), bound(values_of(reused)), places, spent)


def rows(nets: Sequence[str]) -> Iterator[Row]:
    """Measure nets by name, as programs of three kinds."""
    for net in nets:
        path = LIGHT / f"light_{net}.onnx"
        yield measure(net, "node", by_node(path))
        m = load(path)
        yield measure(net, "op", lines_of(m, fuse=False))
        yield measure(net, "fused", lines_of(m, fuse=True))


def main() -> None:
    """Print the table; exit code 1 where a net keeps more than it may."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    names = sorted(p.stem.removeprefix("light_") for p in LIGHT.glob("*.onnx"))
    parser.add_argument("nets", nargs="*", default=names)
    parser.add_argument("--docs", action="store_true", help="write the table to the page")
    a = parser.parse_args()
    found = list(rows(a.nets))
    lines = list(
        table(
            ["net", "a launch for each", "launches", "in place", "bound without", "with", "ratio"],
            (
                (r.net, r.kind, r.launches, r.places, f"{r.plain:,}", f"{r.reused:,}",
                 f"{r.ratio:.3f}")
                for r in found
            ),
        )
    )  # fmt: skip
    print("\n".join(lines))
    if a.docs:
        put("inplace", lines, PAGE)
    missed = [r for r in found if r.ratio > (WANTED.get(r.net, 1) if r.kind == "node" else 1)]
    for r in missed:
        print(f"MISSED {r.net}, {r.kind}: {r.ratio:.4f}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
