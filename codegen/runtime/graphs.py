"""CUDA graphs: launches that the driver has seen before, started by one call.

A graph is made of its nodes, not captured, so that no stream of a caller's is disturbed.  Its
kernels' arguments are copied when it is made; ``Graph.update`` copies them again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from contextlib import suppress

from didyma.codegen.runtime import driver
from didyma.codegen.runtime.driver import DriverError


class Kernel(ctypes.Structure):
    """How a node launches a kernel: ``CUDA_KERNEL_NODE_PARAMS_v2``.

    ``arguments`` is the address of an array of the addresses of the kernel's arguments.
    """

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class _Edge(ctypes.Structure):
    """``CUgraphEdgeData``: from which event of a node to which of another, and of what kind."""

    _fields_ = (
        ("begin", ctypes.c_ubyte),
        ("end", ctypes.c_ubyte),
        ("kind", ctypes.c_ubyte),
        ("more", ctypes.c_ubyte * 5),
    )


# CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, to CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
_EARLY = _Edge(1, 0, 1)


class Graph:
    """Launches as one graph, each after those with the numbers of its row of ``after``.

    Kernels that begin ``early`` do so once these let them, and wait for them.
    DriverError where the driver refuses it.
    """

    def __init__(
        self, kernels: Sequence[Kernel], after: Sequence[Sequence[int]], *, early: bool = False
    ) -> None:
        self._kernels = kernels
        graph, self._runs = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuGraphCreate", ctypes.byref(graph), 0)
        try:
            self._nodes = _nodes(graph, kernels, after, early)
            flags = ctypes.c_uint64(0)
            driver.call("cuGraphInstantiateWithFlags", ctypes.byref(self._runs), graph, flags)
        except DriverError:
            driver.call("cuGraphDestroy", graph)
            raise
        self._graph = graph
        library = driver.library()
        self._set, self._launch = (
            library["cuGraphExecKernelNodeSetParams_v2"],
            library["cuGraphLaunch"],
        )
        self._rows = [
            (self._runs, node, ctypes.byref(k))
            for node, k in zip(self._nodes, kernels, strict=True)
        ]

    def update(self, numbers: Iterable[int]) -> None:
        """Read the arguments of launches again, which are used from the next start on."""
        update, rows = self._set, self._rows
        for n in numbers:
            if code := update(*rows[n]):
                raise DriverError("cuGraphExecKernelNodeSetParams", code)

    def start(self, stream: ctypes.c_void_p) -> None:
        """Run the launches, in the order of a stream."""
        if code := self._launch(self._runs, stream):
            raise DriverError("cuGraphLaunch", code)

    def close(self) -> None:
        """Give back what the driver keeps of it, once its last run has ended."""
        with suppress(DriverError):  # of a context that is gone
            driver.call("cuGraphExecDestroy", self._runs)
            driver.call("cuGraphDestroy", self._graph)


def _nodes(
    graph: ctypes.c_void_p, kernels: Sequence[Kernel], after: Sequence[Sequence[int]], early: bool
) -> list[ctypes.c_void_p]:
    nodes = list[ctypes.c_void_p]()
    for k, before in zip(kernels, after, strict=True):
        node, count = ctypes.c_void_p(), len(before)
        known = (ctypes.c_void_p * count)(*(nodes[n].value for n in before))
        driver.call(
            "cuGraphAddKernelNode_v2", ctypes.byref(node), graph, known,
            ctypes.c_size_t(0 if early else count), ctypes.byref(k),
        )  # fmt: skip
        if early and count:
            same, edges = (ctypes.c_void_p * count)(*count * [node.value]), count * [_EARLY]
            driver.call(
                "cuGraphAddDependencies_v2", graph, known, same, (_Edge * count)(*edges),
                ctypes.c_size_t(count),
            )  # fmt: skip
        nodes.append(node)
    return nodes
