"""The launch ABI: the protocol of engines, and what their checks report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from didyma.refimpl.ir.kernel import KernelText as KernelText
from didyma.refimpl.ir.kernel import Signature as Signature
from didyma.refimpl.ir.types import Array


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of a kernel that an engine's own checks detected.

    ``kind``: ``out-of-bounds``, ``misaligned``, ``race``, ``uninitialised``, ``unwaited``,
    ``unrounded``, ``barrier-divergence``, ``assert``, ``guard``, ``constant``, ``crash``, ``hang``.
    """

    kind: str
    kernel: str
    detail: str
    line: int = 0
    source: str = ""
    node: str = ""


class KernelFault(Exception):
    """Raised by a launch whose checks failed; carries every fault detected."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{f.kind} in {f.kernel}: {f.detail}" for f in faults))


# A library routine: of the engine, output buffers, input buffers and attributes.  It returns the
# buffers that it allocates itself, if it does: one, or a sequence of several.
Routine: TypeAlias = Callable[["Engine", Sequence[Any], Sequence[Any], Mapping[str, Any]], Any]
# Launches one of several kernels: as ``didyma_runtime.numbered``, from its second parameter on.
Dispatcher: TypeAlias = Callable[..., None]


class Loaded(Protocol):
    """Kernel text that an engine has compiled."""

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Any],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run a kernel on device buffers, outputs included; ``scalars`` are its numbers, in order.

        Its effects are visible to what follows on the same stream, and to the host once that reads
        them on stream 0.  Raises KernelFault where the engine checks.
        """
        ...


class Engine(Protocol):
    """Compiles kernel text, keeps buffers on a device, and launches kernels there."""

    name: str

    def load(self, text: KernelText) -> Loaded:
        """Compile kernel text."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """Return fresh, unspecified bytes, aligned to ``didyma.refimpl.ir.program.ALIGNMENT``."""
        ...

    def free(self, buffer: Any) -> None:
        """Free bytes.  Raises KernelFault (``guard``) if their guard bytes were written."""
        ...

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """Return a view of a part of a buffer."""
        ...

    def upload(self, array: Array) -> Any:
        """Return a new buffer with the array's bytes, packed where its dtype is (``to_memory``)."""
        ...

    def download(self, buffer: Any, dtype: str, shape: Sequence[int]) -> Array:
        """Copy a buffer's first bytes out as an array, unpacked where its dtype is packed.

        The dtype is a ``DType`` or its name.
        """
        ...

    def copy(self, target: Any, source: Any) -> None:
        """Copy all bytes of ``source`` over the start of ``target``, on stream 0."""
        ...

    def stack(self, nbytes: int) -> Any:
        """Return bytes as ``allocate`` does, at most 100 KiB, off the heap where that is possible.

        They go back by ``unstack``, on the same thread.
        """
        ...

    def unstack(self, buffer: Any) -> None:
        """Free bytes that ``stack`` returned."""
        ...

    def wait(self, stream: int, on: int) -> None:
        """Let later work of a stream begin after all earlier work of another has ended."""
        ...

    def join(self) -> None:
        """Let later work of every stream begin after all earlier work has ended."""
        ...


@runtime_checkable
class RingEngine(Protocol):
    """An engine that can compute in the ring, where floats are records of values and payloads."""

    def in_ring(self) -> Engine:
        """Return the engine that computes there."""
        ...

    def forget(self, buffer: Any) -> None:
        """Make the payloads of a buffer UNKNOWN, which something else than a kernel has written."""
        ...


def reader(e: Engine) -> Engine:
    """Return the engine by which an engine's buffers are downloaded as NumPy arrays.

    It is another one where downloads are to stay on the device.
    """
    return getattr(e, "reads", e)
