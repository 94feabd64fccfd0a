"""Programs as JSON, walked line by line: the bits of what the graph means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.memory.peak import peak
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import planner
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.didyma_runtime import Refused, walk
from didyma.codegen.runtime.didyma_runtime.host import here
from didyma.codegen.runtime.objects import shared_object
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.codegen.control.modules import TEXTS, module
from tests.codegen.emit.test_wrapper import every_line
from tests.codegen.order.test_control import bare, inputs

Run = Callable[[list[Any]], list[Array]]
TWO = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 100]) -> (%y) {
    %e = exp(%x) : f32[n, 100]
    %s = cumulative_sum(%e, axis=1, exclusive=false, reverse=false) : f32[n, 100]
    %t = sum(%s, axes=(1,), keepdims=false) : f32[n]
    %c = constant(value=f32[4] [1.0, 2.0, 3.0, 5.0]) : f32[4]
    %k = sum(%c, axes=(0,), keepdims=true) : f32[1]
    %b = broadcast_to(%k, shape=(n,)) : f32[n]
    %y = multiply(%t, %b) : f32[n]
  }
}"""


def loaded(p: Program, change: Mapping[str, Any] = MappingProxyType({})) -> Run:
    """Load a program from its JSON, of which something may be changed, and its machine code."""
    text = cuda.emit(p.kernels)
    code = shared_object(text)
    digest = hashlib.sha256(code).hexdigest()
    weights = wrapper.weights_table(p)
    files = {"kernels.so": code, weights[0]: wrapper.weights(p)}
    data = json.loads(program_json(p, text, {here(): ("kernels.so", digest)}, weights))
    return walk.read(json.dumps(data | change).encode(), lambda name, _: files[name])


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("how", ["linear_scan", "didyma"])
def test_a_walk_gives_what_the_graph_means(name: str, how: str) -> None:
    m = module(name)
    run = loaded(plan(bare(m), planner(how)))
    for n in (1, 5):
        given = inputs(m, n)
        args = list(given)
        got = run(args)
        assert args == []
        want = graph.run(m, given)
        assert [(a.tobytes(), a.shape) for a in got] == [(a.tobytes(), a.shape) for a in want]


def test_it_checks_what_it_is_given() -> None:
    m = module("grows")
    p = plan(bare(m), planner("didyma"))
    run = loaded(p)
    x, y = inputs(m, 3)
    for args, code in (
        ([x], "input-count"),
        ([x, y[None]], "rank-mismatch"),
        ([x.astype(np.float64), y], "input-dtype"),
        ([np.ones(9, np.float32), y], "dim-out-of-range"),
    ):
        with pytest.raises(Refused) as e:
            run(list(args))
        assert e.value.code == code
    for key, value, code in (
        ("format", "x", "not-an-artifact"),
        ("version", walk.VERSION + 1, "artifact-newer"),
    ):
        with pytest.raises(Refused) as e:
            loaded(p, {key: value})
        assert e.value.code == code


def test_values_on_the_same_bytes_have_the_same_storage() -> None:
    p = every_line()
    data = json.loads(program_json(p, cuda.emit(p.kernels), {}))
    values = data["main"]["values"]
    shared = {
        (line["value"], line.get("over") or line["of"])
        for line in data["main"]["lines"]
        if line["line"] in ("Reuse", "PlacementAllocate", "View")
    }
    assert shared == {("v", "t"), ("j", "u"), ("v:2", "v")}
    for a, b in shared:
        assert values[a]["storage"] == values[b]["storage"]
    owners = ("x", "k", "class", "spare", "t", "u", "w")
    assert len({values[x]["storage"] for x in owners}) == len(owners)


@pytest.mark.parametrize("n", [1, 5])
def test_each_function_tells_its_memory(n: int) -> None:
    c = compile(parse_module(TWO), Options())
    told = json.loads(program_json(c.program, c.text, {}))["main"]["memory"]
    sizes = {"n": n}
    assert walk.value(told["inputs"], sizes) == 4 * 100 * n
    assert walk.value(told["outputs"], sizes) == 4 * n
    assert told["constants"] == 16
    assert walk.value(told["workspace"][""], sizes) == peak(c.program, sizes) > 0
