"""PyTorch modules as specifications, by ``torch.export`` and ONNX; the extra is the user's own."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from didyma.files import read_module
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tracing import Program

_NEEDED = ("torch", "onnx", "onnxscript")


def torch_or_raise(where: str) -> Any:
    """Return the module ``torch``; DidymaError ``extra-missing`` without what exporting needs."""
    for name in _NEEDED:
        try:
            import_module(name)
        except ModuleNotFoundError as e:
            raise DidymaError(
                "extra-missing", where, got=f"no package {name}",
                want="PyTorch, and what exports its modules",
                help=f"python3 -m pip install {' '.join(_NEEDED)}",
            ) from e  # fmt: skip
    return import_module("torch")


def program_of(
    f: Callable[..., Any],
    inputs: Mapping[str, Any],
    where: str,
    parameters: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Sequence[str | None]] | None = None,
) -> Program:
    """Return the program of a function or module of tensors.

    ``inputs`` are examples of its arguments by name.  ``parameters`` of a module become inputs
    behind them, of the names that they have, with ``_`` for dots.  ``sizes`` name the axes of
    inputs that may have any size.  DidymaError ``extra-missing``, ``bad-spec`` where PyTorch cannot
    export it, and those of importing ONNX.
    """
    torch = torch_or_raise(where)
    own = {k: v.detach() for k, v in (parameters or {}).items()}
    count = len(inputs)

    def forward(self: Any, *tensors: Any) -> Any:
        del self
        if not own:
            return f(*tensors)
        given = dict(zip(own, tensors[count:], strict=True))
        return torch.func.functional_call(f, given, tensors[:count])

    whole = type("Whole", (torch.nn.Module,), {"forward": forward})
    names = [*inputs, *(k.replace(".", "_") for k in own)]
    tensors = (*inputs.values(), *own.values())
    dynamic = {"tensors": _dynamic(torch, names, sizes)} if sizes else None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quiet = io.StringIO()
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of absent packages
        try:
            with warnings.catch_warnings(), redirect_stdout(quiet), redirect_stderr(quiet):
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    whole().eval(), tensors, path, dynamo=True, input_names=names,
                    dynamic_shapes=dynamic, external_data=False, verbose=False,
                )  # fmt: skip
        except Exception as e:
            first = str(e).strip().splitlines()
            raise DidymaError(
                "bad-spec", where, got=f"{type(e).__name__}: {first[0] if first else ''}",
                want="a module that torch.export takes",
            ) from e  # fmt: skip
        return Program(read_module(path))


def _dynamic(
    torch: Any, names: Sequence[str], sizes: Mapping[str, Sequence[str | None]]
) -> tuple[dict[int, Any] | None, ...]:
    """Return the axes of each input that may have any size."""
    known = {s for row in sizes.values() for s in row if s}
    axes = {s: torch.export.Dim(s, min=2, max=1 << 20) for s in known}
    rows = [{k: axes[s] for k, s in enumerate(sizes.get(n, ())) if s} for n in names]
    return tuple(row or None for row in rows)
