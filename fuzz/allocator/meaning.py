"""What a program without memory means: every value in an array of its own.

The yardstick for planned programs.  It shares nothing with planners, liveness or the program
interpreter; kernels are run by the loop interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np

from didyma.fuzz.allocator.kernels import ROUTINES
from didyma.oracle import lanes
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.program import Line, Program
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify.symbols import caller_symbols

FRESH = 0x3C  # what bytes hold before they are written; no result depends on it


def run(p: Program, inputs: Sequence[Array], env: Mapping[str, int]) -> list[Array]:
    """Return the results of a program that has no memory lines, under a binding of its dims."""
    m = _Meaning(p, env)
    for name, array in zip(p.inputs, inputs, strict=True):
        m.raw[name] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
    for name, tensor in p.constants:
        m.raw[name] = np.frombuffer(tensor.data, np.uint8).copy()
    m.block(p.lines[:-1])
    return [m.result(name).copy() for name in p.results]


class _Meaning:
    def __init__(self, p: Program, env: Mapping[str, int]) -> None:
        self.types = p.type
        self.kernels = p.kernel
        self.functions = p.function
        self.env = dict(env)
        self.raw: dict[str, Array] = {}
        self.strided: dict[str, ir.Strided] = {}

    def result(self, name: str) -> Array:
        """Elements of a result, of a strided one each looked up by its index."""
        if (s := self.strided.get(name)) is None:
            return self.array(name)
        flat = self.array(s.of).reshape(-1)
        strides, at = dims.values(s.strides, self.env), dims.evaluate(s.offset, self.env)
        shape = dims.values(self.types[name].shape, self.env)
        found = np.empty(shape, flat.dtype)
        for index in np.ndindex(shape):
            found[index] = flat[at + sum(i * k for i, k in zip(index, strides, strict=True))]
        return found

    def array(self, name: str) -> Array:
        """Elements of a value, in place; its bytes come to be where it had none."""
        t = self.types[name]
        if name not in self.raw:
            self.raw[name] = np.full(dims.evaluate(t.nbytes, self.env), FRESH, np.uint8)
        return self.raw[name].view(t.dtype.numpy).reshape(dims.values(t.shape, self.env))

    def block(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self.line(line)

    def line(self, line: Line) -> None:
        match line:
            case ir.View(value, of, offset):
                self.array(of)
                start = dims.evaluate(offset, self.env)
                stop = start + dims.evaluate(self.types[value].nbytes, self.env)
                self.raw[value] = self.raw[of][start:stop]
            case ir.Strided():
                self.strided[line.value] = line
            case ir.Launch(kernel, args):
                self.launch(kernel, args)
            case ir.Dispatch():
                self.line(line.launch(0))
            case ir.Extern(name, outputs, inputs, attrs):
                outs = [self.array(o) for o in outputs]
                ROUTINES[name](outs, [self.array(i) for i in inputs], dict(attrs))
            case ir.Call():
                self.call(line)
            case ir.Copy(value, source):
                self.array(value)[...] = self.array(source)
            case ir.If(cond, then, other):
                self.block(then if self.array(cond) else other)
            case ir.While(test, cond, body):
                self.block(test)
                while self.array(cond):
                    self.block(body)
                    self.block(test)
            case ir.Repeat(index, extent, body):
                for i in range(dims.evaluate(extent, self.env)):
                    self.env[index] = i
                    self.block(body)
            case ir.Bind(dim, value):
                self.env[dim] = int(self.array(value))
            case ir.Carry(values, new):
                taken = [self.raw.pop(of) for _, of in values]
                self.env |= {n: dims.evaluate(d, self.env) for n, d in new}
                self.raw |= dict(zip((v for v, _ in values), taken, strict=True))
            case ir.Assert(lhs, rhs, message):
                assert dims.evaluate(lhs, self.env) == dims.evaluate(rhs, self.env), message
            case ir.Wait() | ir.Return():
                pass
            case (
                ir.Allocate()
                | ir.Free()
                | ir.Reuse()
                | ir.PlacementAllocate()
                | ir.Arena()
                | ir.Place()
            ):
                raise AssertionError(f"a line of memory: {line}")
            case _:
                assert_never(line)

    def call(self, line: ir.Call) -> None:
        f = self.functions[line.callee]
        inner = _Meaning(f, {v.name: self.env[v.name] for v in caller_symbols(f)})
        values = (*line.inputs, *line.outputs)
        for value, name in zip(values, (*f.inputs, *f.outputs), strict=True):
            self.array(value)
            inner.raw[name] = self.raw[value]
        inner.block(f.lines[:-1])

    def launch(self, kernel: str, args: Sequence[str]) -> None:
        k = self.kernels[kernel]
        buffers = {
            b.name: self.array(a).reshape(dims.values(b.shape, self.env))
            for b, a in zip(k.params, args, strict=True)
        }
        lanes.run(loops(k), buffers, self.env)
