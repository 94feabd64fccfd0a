"""Tasks of KernelBench: a Python file with ``Model``, ``get_inputs()`` and ``get_init_inputs()``.

Source of the format: A. Ouyang et al., *KernelBench: Can LLMs Write Efficient GPU Kernels?*, 2025.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from didyma.judging.pytorch import program_of, torch_or_raise
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tracing import Program

_CAPS = (64, 32, 16, 8, 4)  # of sizes, tried in turn
_MOST = (1 << 13, 1 << 16)  # elements of all inputs and parameters, in turn
_NAMES = ("Model", "get_inputs", "get_init_inputs")


def is_task(text: str) -> bool:
    """Return whether a Python text is a task of KernelBench."""
    return all(f"class {n}" in text or f"def {n}" in text for n in _NAMES)


def shrunk(text: str, cap: int) -> str:
    """Return a task whose sizes are small: those of its module that are greater than ``cap``.

    They are halved until they are not, so that what divides them still does.

    >>> shrunk("batch, dims = 16, (3, 512)", 64)
    'batch, dims = (16, (3, 64))'
    """
    tree = ast.parse(text)

    class Halved(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            n = node.value
            while isinstance(n, int) and n > cap:
                n //= 2
            return ast.copy_location(ast.Constant(n), node)

    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            statement.value = Halved().visit(statement.value)
    return ast.unparse(tree)


def load(path: Path) -> Program:
    """Return the program of a task, at small sizes; the parameters of its model are inputs, too.

    DidymaError ``extra-missing`` without PyTorch; ``bad-spec`` for a task that does not run.
    """
    torch = torch_or_raise(str(path))
    text = path.read_text(encoding="utf-8-sig")
    why = "inputs of too many elements"
    for most, cap in product(_MOST, _CAPS):
        try:
            space = _run(shrunk(text, cap), path)
            torch.manual_seed(0)
            model = space["Model"](*space["get_init_inputs"]()).eval()
            inputs = space["get_inputs"]()
            own = dict(model.named_parameters())
            if sum(t.numel() for t in (*own.values(), *inputs) if hasattr(t, "numel")) > most:
                continue
            with torch.no_grad():
                model(*inputs)
        except Exception as e:  # sizes that do not fit each other, or a task that never runs
            why = f"{type(e).__name__}: {e}"
            continue
        names = [*inspect.signature(model.forward).parameters]
        return program_of(model, dict(zip(names, inputs, strict=False)), str(path), own)
    raise DidymaError("bad-spec", str(path), got=why, want="a task that runs at small sizes")


def _run(text: str, path: Path) -> Mapping[str, Any]:
    space: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), space)
    return space
