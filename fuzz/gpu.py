"""A GPU that is not there: the functions of the CUDA driver that Didyma calls by ctypes.

Its memory is this process's, kernels run on another engine, and every address that a launch is
given must lie in memory that is alive.  A graph copies the arguments of its kernels when it is made
and when they are set, and runs them in any order that its edges allow.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from didyma.codegen.runtime.geometry import geometry
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType

ALIGNMENT = 512
ILLEGAL_ADDRESS = 700
_USUAL_SHARED = 48 << 10  # bytes of shared memory that any kernel may ask for
_EARLY = 6, 1  # programmatic serialisation of a stream, which is on
_EARLY_EDGE = 1, 0, 1  # from where a kernel lets others begin, to a kernel, that waits itself


@dataclass
class Gpu:
    """The state of the GPU: who calls it reads what happened, and plants what is to fail.

    ``live`` are the bytes that are somebody's, and ``kept`` those that were, by their size.
    ``fails`` has by the name of a function the errors of its next calls, 0 for none.  An error of
    ``ILLEGAL_ADDRESS`` lasts.  ``shared`` are the bytes of shared memory that launches have asked
    for, in order.  ``texts`` has by the code of a module its kernels, which ``engine``
    runs.  ``random`` orders the kernels of graphs.
    """

    engine: Any
    live: dict[int, Array] = field(default_factory=dict[int, Array])
    kept: dict[int, list[Array]] = field(default_factory=dict[int, list[Array]])
    log: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    fails: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    shared: list[int] = field(default_factory=list[int])
    capacity: int = 1 << 30
    lost: int = 0
    captured: bool = False
    texts: dict[str, KernelText] = field(default_factory=dict[str, KernelText])
    objects: dict[int, Any] = field(default_factory=dict[int, Any])
    random: Random = field(default_factory=Random)

    def handle(self, of: Any) -> int:
        """Return a new handle of an object."""
        number = 0x7000_0000_0000 + 16 * len(self.log) + 4096 * len(self.objects)
        self.log.append(("made", number))
        self.objects[number] = of
        return number

    def allocate(self, nbytes: int) -> int:
        """Return the address of new bytes; MemoryError where there is no room."""
        if sum(a.nbytes for a in self.live.values()) + nbytes > self.capacity:
            raise MemoryError
        if kept := self.kept.get(nbytes):
            part = kept.pop()
        else:
            whole = np.empty(nbytes + ALIGNMENT, np.uint8)
            start = -whole.ctypes.data % ALIGNMENT
            part = whole[start : start + max(1, nbytes)]
        part.fill(0xA5)
        self.live[part.ctypes.data] = part
        return int(part.ctypes.data)

    def free(self, address: int) -> None:
        """Take bytes back, for the next array of their size."""
        part = self.live.pop(address)
        self.kept.setdefault(part.nbytes, []).append(part)

    def bytes(self, address: int, nbytes: int) -> Array:
        """Return bytes that are alive; AssertionError where they are not."""
        if not nbytes:
            return np.empty(0, np.uint8)
        for start, a in self.live.items():
            if start <= address and address + nbytes <= start + a.nbytes:
                return a[address - start : address - start + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are nobody's")

    def error(self, name: str) -> int:
        """Return the error with which a call of a function ends."""
        planned = self.fails.get(name)
        code = planned.pop(0) if planned else 0
        if code == ILLEGAL_ADDRESS:
            self.lost = code
        return self.lost or code

    def run(self, function: int, grid: Any, block: Any, words: list[int]) -> None:
        """Run a kernel with arguments of 64 bits."""
        loaded, s = self.objects[function]
        n = len(s.buffers)
        dims = {d: _signed(w) for d, w in zip(s.dims, words[n:], strict=False)}
        g = geometry(s, dims)
        assert (tuple(grid), tuple(block)) == (g.grid, s.block), "another grid than it says"
        engine = self.engine
        views = [self.bytes(w, size) for w, size in zip(words, g.nbytes, strict=False)]
        buffers = [engine.upload(v) for v in views]
        scalars = [
            np.frombuffer(w.to_bytes(8, "little"), d.numpy, 1)[0]
            for w, (_, d) in zip(words[n + len(s.dims) :], s.scalars, strict=True)
        ]
        loaded.launch(s.name, buffers, dims, scalars=scalars)
        for (name, _), view, buffer in zip(s.buffers, views, buffers, strict=True):
            if name in s.outputs:
                view[:] = engine.download(buffer, DType.U8, (view.size,))
            engine.free(buffer)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _words(address: int | None, count: int) -> list[int]:
    """Return the words at the addresses in an array of addresses."""
    if not count:
        return []
    assert address, "no arguments"
    each = (ctypes.c_uint64 * count).from_address(address)
    return [ctypes.c_uint64.from_address(a).value for a in each]


def _count(s: Signature) -> int:
    return len(s.buffers) + len(s.dims) + len(s.scalars)


@dataclass
class _Node:
    function: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    words: list[int]
    after: list[int]
    shared: int


class Library:
    """The functions of ``libcuda``."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._allowed: dict[int, int] = {}

    def __getitem__(self, name: str) -> Callable[..., int]:
        words = re.findall("[A-Z][a-z]*", name.removesuffix("_v2"))
        work: Callable[..., None] = getattr(self, f"_{'_'.join(words).lower()}")

        def call(*args: Any) -> int:
            code = 0 if name == "cuGetErrorName" else self._gpu.error(name)
            if not code:
                work(*args)
            return code

        return call

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _get_error_name(self, code: int, out: Any) -> None:
        out._obj.value = f"CUDA_ERROR_{code}".encode()

    def _ctx_synchronize(self) -> None:
        pass

    def _module_load_data(self, out: Any, code: bytes) -> None:
        text = self._gpu.texts[code.decode()]
        out._obj.value = self._gpu.handle((self._gpu.engine.load(text), text))

    def _module_unload(self, module: Any) -> None:
        loaded = self._gpu.objects.pop(module.value, (None,))[0]
        for handle, found in list(self._gpu.objects.items()):
            if isinstance(found, tuple) and found[0] is loaded:
                del self._gpu.objects[handle]

    def _module_get_function(self, out: Any, module: Any, name: bytes) -> None:
        loaded, text = self._gpu.objects[module.value]
        found = next(s for s in text.kernels if s.name == name.decode())
        out._obj.value = self._gpu.handle((loaded, found))

    def _func_set_attribute(self, function: Any, attribute: int, value: int) -> None:
        del attribute  # the bytes of shared memory that launches may ask for
        self._allowed[function.value] = value

    def _launch_kernel(self, function: Any, *rest: Any) -> None:
        grid, block, (shared, stream, args, _) = rest[:3], rest[3:6], rest[6:]
        self._gpu.shared.append(shared)
        _, s = self._gpu.objects[function.value]
        self._gpu.log.append((s.name, stream.value or 0))
        self._gpu.run(function.value, grid, block, _words(args.value, _count(s)))

    def _launch_kernel_ex(self, config: Any, function: Any, args: Any, more: Any) -> None:
        c = config._obj
        (attribute,) = c.attributes[: c.count]
        assert (attribute.which, attribute.value[1]) == _EARLY, "another attribute"
        self._gpu.log.append(("early", c.stream or 0))
        rest = *c.grid, *c.block, c.shared, ctypes.c_void_p(c.stream), args, more
        self._launch_kernel(function, *rest)

    def _memcpy_dto_d_async(self, target: Any, source: Any, nbytes: Any, stream: Any) -> None:
        n = nbytes.value
        self._gpu.log.append(("copy", stream.value or 0))
        self._gpu.bytes(target.value, n)[:] = self._gpu.bytes(source.value, n)

    def _stream_is_capturing(self, stream: Any, out: Any) -> None:
        out._obj.value = int(self._gpu.captured)

    def _graph_create(self, out: Any, flags: int) -> None:
        out._obj.value = self._gpu.handle(list[_Node]())

    def _graph_add_kernel_node(
        self, out: Any, graph: Any, after: Any, count: Any, params: Any
    ) -> None:
        nodes = self._gpu.objects[graph.value]
        known = [self._gpu.objects[h][1] for h in list(after)[: count.value]]
        nodes.append(_Node(*self._params(params), known, params._obj.shared))
        out._obj.value = self._gpu.handle((nodes, len(nodes) - 1))

    def _graph_add_dependencies(
        self, graph: Any, first: Any, then: Any, edges: Any, count: Any
    ) -> None:
        nodes = self._gpu.objects[graph.value]
        for one, other, edge in zip(first, then, edges, strict=True):
            assert (edge.begin, edge.end, edge.kind) == _EARLY_EDGE, "another edge"
            self._gpu.log.append(("early edge", 0))
            (_, before), (_, after) = (self._gpu.objects[h] for h in (one, other))
            nodes[after].after.append(before)

    def _graph_instantiate_with_flags(self, out: Any, graph: Any, flags: Any) -> None:
        nodes = self._gpu.objects[graph.value]
        copies = [replace(n, words=list(n.words)) for n in nodes]
        out._obj.value = self._gpu.handle(copies)

    def _graph_exec_kernel_node_set_params(self, runs: Any, node: Any, params: Any) -> None:
        _, number = self._gpu.objects[node.value]
        found = self._gpu.objects[runs.value][number]
        found.function, found.grid, found.block, found.words = self._params(params)

    def _graph_launch(self, runs: Any, stream: Any) -> None:
        self._gpu.log.append(("graph", stream.value or 0))
        nodes, done = self._gpu.objects[runs.value], set[int]()
        while len(done) < len(nodes):
            free = [i for i, n in enumerate(nodes) if i not in done and done.issuperset(n.after)]
            number = self._gpu.random.choice(free)
            n = nodes[number]
            self._gpu.shared.append(n.shared)
            self._gpu.run(n.function, n.grid, n.block, n.words)
            done.add(number)

    def _graph_exec_destroy(self, runs: Any) -> None:
        self._gpu.objects.pop(runs.value, None)

    def _graph_destroy(self, graph: Any) -> None:
        nodes = self._gpu.objects.pop(graph.value, None)
        for handle, found in list(self._gpu.objects.items()):
            if isinstance(found, tuple) and found[0] is nodes:
                del self._gpu.objects[handle]

    def _event_create(self, out: Any, flags: int) -> None:
        out._obj.value = self._gpu.handle(None)

    def _event_record(self, event: Any, stream: Any) -> None:
        self._gpu.log.append(("record", stream.value))

    def _stream_wait_event(self, stream: Any, event: Any, flags: int) -> None:
        self._gpu.log.append(("wait", stream.value))

    def _event_destroy(self, event: Any) -> None:
        del self._gpu.objects[event.value]

    def _params(self, by_reference: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], list[int]]:
        p = by_reference._obj
        _, s = self._gpu.objects[p.function]
        assert p.shared <= self._allowed.get(p.function, _USUAL_SHARED)
        assert not p.extra
        return p.function, tuple(p.grid), tuple(p.block), _words(p.arguments, _count(s))
