from __future__ import annotations

import numpy as np

from didyma.codegen.memory import peak, planner
from didyma.codegen.memory.inplace import in_place
from didyma.codegen.memory.liveness import Lives
from didyma.codegen.memory.plan import plan
from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.allocator.domains import every
from didyma.fuzz.allocator.kernels import At
from didyma.fuzz.allocator.maker import Maker
from didyma.oracle import lanes
from didyma.refimpl.interp import program as program_interp
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Launch, Program
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.verify import program as laws
from tests.bench.inplace import rows
from tests.codegen.make import Graph
from tests.codegen.memory.here import HERE


def bare(m: Module) -> Program:
    """Launches of a module, an op each."""
    return compile(m, Options(graph=GraphOptions(fuse=False)), until="order").bare


def pairs(p: Program) -> list[tuple[str, str]]:
    return [pair for x in p.lines if isinstance(x, Launch) for pair in x.inplace]


def same_bits(p: Program) -> None:
    r = np.random.default_rng(0)
    inputs = [r.normal(size=dims.values(p.type[v].shape, {})).astype(np.float32) for v in p.inputs]
    plain = plan(p, planner("none"))
    for name in HERE:
        planned = plan(p, planner(name))
        laws.verify(planned)
        want = program_interp.run(plain, inputs, lanes.run)
        for a, b in zip(want, program_interp.run(planned, inputs, lanes.run), strict=True):
            assert a.tobytes() == b.tobytes()


def chain(shape: tuple[int, ...]) -> Program:
    g = Graph()
    x = g("exp", g.param("x", *shape))
    y = g("add", g("sin", x), g.param("y", *shape[-1:]))
    return bare(g.module(g("sum", y, axes=(0,), keepdims=False)))


def reused(p: Program) -> Program:
    return in_place(p, Lives(p.lines, p.inputs))


def test_a_chain_of_elementwise_ops_stays_where_it_is() -> None:
    for shape in ((8, 16), (2, 64, 12, 1), (3, 1, 7, 5), (2, 1, 3)):
        p = chain(shape)
        assert pairs(reused(p)) == [("sin", "exp"), ("add", "sin")], shape
    planned = plan(chain((8, 16)), planner("didyma"))
    assert pairs(planned) == [("sin", "exp"), ("add", "sin")]
    assert peak(planned, {}) == 768


def test_an_operand_that_is_read_later_keeps_its_bytes() -> None:
    g = Graph()
    x = g("exp", g.param("x", 8, 16))
    y = g("sin", x)
    p = bare(g.module(g("add", y, x)))
    assert pairs(reused(p)) == [("add", "sin")]
    same_bits(p)


def test_a_reader_of_other_elements_is_not_in_place() -> None:
    g = Graph()
    x = g("exp", g.param("x", 80, 80))
    p = bare(g.module(g("permute_dims", g("flip", x, axes=(1,)), axes=(1, 0))))
    assert pairs(reused(p)) == []


def test_an_operand_given_twice_or_seen_through_a_view_is_not_taken() -> None:
    g = Graph()
    x = g("exp", g.param("x", 4, 4))
    v = g("reshape", x, shape=(16,))
    p = bare(g.module(g("multiply", g("sin", v), v)))
    assert pairs(reused(p)) == [("multiply", "sin")]
    same_bits(p)


def test_an_input_a_constant_and_a_result_are_not_taken() -> None:
    g = Graph()
    x = g("exp", g.param("x", 4, 4))
    p = bare(g.module(x, g("sin", x), g("cos", g.param("y", 4, 4))))
    assert pairs(reused(p)) == []


def test_the_bound_of_a_net_falls() -> None:
    found = {r.kind: r for r in rows(["squeezenet"])}
    assert found["node"].ratio <= 0.63
    assert found["op"].ratio <= 0.63
    assert found["fused"].reused == found["op"].reused


def viewed(end: int) -> Program:
    """A kernel reads a value through two views, and another reads some of it afterwards."""
    m = Maker()
    t = TensorType(DType.I32, (64,))
    (a,) = m.launch([(m.input(t), At.SHIFTED)], [t])
    v = m.view(m.view(a, TensorType(DType.I32, (8, 8))), TensorType(DType.I32, (4, 16)))
    m.launch([(v, At.SAME)], [t])
    for read in (a, v)[:end]:
        m.launch([(read, At.SHIFTED)], [t])
    return m.finish([m.known()[-1]])


def test_an_operand_seen_through_views_dies_too() -> None:
    p = viewed(0)
    found = reused(p)
    assert pairs(found) == [("a4", "a1")]
    assert every(p, plan(p, planner("didyma")), 0, run=True) == []
    assert peak(plan(p, planner("didyma")), {}) == 256


def test_an_operand_whose_other_name_is_read_on_stays() -> None:
    assert all(("a4", "a1") not in pairs(reused(viewed(end))) for end in (1, 2))


def test_a_view_of_other_elements_or_of_a_part_stays() -> None:
    for of, offset in ((TensorType(DType.U8, (512,)), 0), (TensorType(DType.I32, (64,)), 256)):
        m = Maker()
        (a,) = m.launch([(m.input(of), At.SHIFTED)], [TensorType(DType.I32, (128,))])
        v = m.view(a, of, offset)
        m.launch([(v, At.SAME)], [of])
        p = m.finish([m.known()[-1]])
        assert pairs(reused(p)) == []
