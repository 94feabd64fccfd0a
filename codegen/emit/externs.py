"""External functions that a module carries, as lines of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from didyma.codegen.emit.integers import of_sizes, quoted, tuple_of
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.external import External
from didyma.refimpl.ir.types import TensorType

File = tuple[str, str]  # name and SHA-256


@dataclass(frozen=True, slots=True)
class Entry:
    """An external function, and the files that hold it."""

    external: External
    symbol: str
    out: bool
    source: File
    library: File | None
    constants: File | None

    def types(self) -> tuple[TensorType, ...]:
        """Return the types of the inputs, then those of the results."""
        f = self.external.function
        return (*(p.type for p in f.params), *f.result_types())


def table(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield the lines of a module's table of them; none where there are none."""
    if not entries:
        return
    yield "EXTERNS = {"
    for name, x in entries.items():
        shapes = (tuple_of(of_sizes(of_dim(d)) for d in t.shape) for t in x.types())
        yield f"    {quoted(name)}: rt.Extern("
        yield f"        source={_file(x.source)},"
        yield f"        symbol={quoted(x.symbol)},"
        yield f"        out={x.out},"
        yield f"        sizes={tuple_of(map(quoted, x.external.sizes))},"
        yield f"        inputs={len(x.external.function.params)},"
        yield f"        dtypes={tuple_of(quoted(t.dtype) for t in x.types())},"
        yield f"        shapes=lambda s: {tuple_of(shapes)},"
        for what in ("library", "constants"):
            if (file := getattr(x, what)) is not None:
                yield f"        {what}={_file(file)},"
        yield "    ),"
    yield "}"


def _file(file: File) -> str:
    return tuple_of(map(quoted, file))
