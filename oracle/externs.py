"""The bodies of external functions, as routines of the program interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.refimpl.interp import graph
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.external import External, alone, externals
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.types import Array, from_memory, to_memory


def bodies(m: Module) -> dict[str, Routine]:
    """Return routines that run the body of each external function of a module by the reference.

    They are named as the program's ``Extern`` lines name them.
    """
    return {x.routine: _by_body(alone(m, name), x) for name, x in externals(m).items()}


def _by_body(m: Module, x: External) -> Routine:
    def routine(
        outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]
    ) -> None:
        numbers = attrs.get("sizes", ())
        assert isinstance(numbers, tuple)
        sizes = {name: int(str(n)) for name, n in zip(x.sizes, numbers, strict=True)}
        arrays = [
            from_memory(a, p.type.dtype, dims.values(p.type.shape, sizes))
            for a, p in zip(inputs, m.entry.params, strict=True)
        ]
        for target, result in zip(outputs, graph.run(m, arrays, sizes), strict=True):
            target[...] = to_memory(result).reshape(target.shape)

    return routine
