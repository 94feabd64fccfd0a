"""Which schedule a loop program gets, by the structure of its loops."""

from __future__ import annotations

from dataclasses import replace

from codegen.options import Options
from codegen.schedule.nest import Nest, Scene, nests
from codegen.schedule.pointwise import elementwise
from refimpl.ir.loop import PrimFunc


def schedule(p: PrimFunc, options: Options) -> tuple[PrimFunc, ...]:
    """Kernels that do what a function from lowering does, run one after another.

    Each keeps the parameters that it needs, under their names; a parameter may be seen with
    another shape of as many elements.  Attribute ``schedule`` names the class.
    """
    kernels = [_one(p, nest, options) for nest in nests(p.body)]
    return tuple(k if n == 0 else replace(k, name=f"{k.name}_{n}") for n, k in enumerate(kernels))


def _one(p: PrimFunc, nest: Nest, options: Options) -> PrimFunc:
    scene = Scene.of(p, nest, options.block, options.vectorise)
    return elementwise(scene)
