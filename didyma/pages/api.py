"""``docs/api.md`` and its like: the public names, for Sphinx to fill from their docstrings.

A page has a table of names with the first sentence of each docstring, which reads well without
Sphinx, and below it the directives that Sphinx replaces by signatures and docstrings.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from didyma import api

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Elementwise functions", ("elementwise",)),
    ("Reductions", ("reductions",)),
    ("Shapes and joining", ("shaping", "joining")),
    ("Creation", ("creation",)),
    ("Devices", ("devices",)),
    ("Indexing, searching and sorting", ("lookup",)),
    ("Products of matrices", ("products",)),
    ("Convolution and pooling", ("windows",)),
    ("Neural networks", ("neural", "ragged", "gradients")),
    ("Random numbers and bits", ("randomness",)),
    ("Dtypes", ("dtypes",)),
    ("Control flow and sizes from data", ("control", "sizes")),
)  # modules of didyma.functions by the heading under which their functions stand
PROTOCOLS: tuple[tuple[str, str], ...] = (
    ("Engines", "didyma.codegen.runtime.engine"),
    ("Kernels", "didyma.refimpl.ir.kernel"),
    ("Arena planners", "didyma.codegen.memory.arena"),
    ("Planners of programs", "didyma.codegen.memory.planners"),
    ("Peers", "didyma.fuzz.peers.peer"),
)  # headings, and the modules whose public classes and functions stand below them


def main_page() -> str:
    """Return ``docs/api.md``: tracing, compiling, interpreting and judging."""
    first = (
        "trace", "compile", "bucketed", "interpret", "check", "load", "dim", "as_complex", "kernel",
        "library", "register",
    )  # fmt: skip
    classes = sorted(n for n in _public() if inspect.isclass(_get(api, n)))
    return _page(
        "Python interface",
        "The names of `import didyma as dd`. The functions on tensors have"
        " [a page](api-functions.md) of their own, and so have [the modules](api-modules.md)"
        " `dd.linalg`, `dd.fft`,"
        " `dd.signal`, `dd.complex`, `dd.testing` and `dd.strategies`, and [the"
        " protocols](api-protocols.md) of engines, planners and peers.",
        [("Functions", "didyma", first), ("Classes", "didyma", classes)],
    )


def functions_page() -> str:
    """Return ``docs/api-functions.md``: the functions on tensors, by what they do."""
    shown = {name for name in _public() if callable(_get(api, name))}
    sections: list[tuple[str, str, Sequence[str]]] = []
    for title, modules in GROUPS:
        paths = {f"didyma.functions.{m}" for m in modules}
        names = [n for n in shown if getattr(_get(api, n), "__module__", "") in paths]
        functions = sorted(n for n in names if not inspect.isclass(_get(api, n)))
        sections.append((title, "didyma", functions))
    return _page(
        "Functions on tensors",
        "Every function of `dd` that takes or makes tensors. They follow the Python Array API"
        " standard where it has the function ([array-api.md](array-api.md)), and NumPy's or"
        " PyTorch's names are accepted for many. `didyma ops NAME` shows of which primitive ops a"
        " function is made.",
        sections,
    )


def modules_page() -> str:
    """Return ``docs/api-modules.md``: the public modules below ``didyma``."""
    sections: list[tuple[str, str, Sequence[str]]] = []
    for name in ("testing", "strategies", "linalg", "fft", "signal", "complex"):
        module = import_module(f"didyma.{name}")
        sections.append((f"didyma.{name}", f"didyma.{name}", sorted(_offered(module))))
    return _page(
        "Modules",
        "Tests for your own code, and the extensions of the Array API.",
        sections,
    )


def protocols_page() -> str:
    """Return ``docs/api-protocols.md``: what engines, planners and peers of others implement."""
    return _page(
        "Protocols of engines, planners and peers",
        "What an engine, a planner or a peer of your own offers. There is an example of each in"
        " [Check an engine](check-an-engine.md), [Check a planner](check-a-planner.md) and"
        " [Check a compiler](check-a-compiler.md).",
        [(title, path, _offered(import_module(path))) for title, path in PROTOCOLS],
    )


def _page(title: str, intro: str, sections: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Return a page: of each section a table of names, then the directives for all of them."""
    lines = [f"# {title}", "", *textwrap.wrap(intro, 100), ""]
    for heading, path, names in sections:
        module = import_module("didyma.api" if path == "didyma" else path)
        main = [n for n in names if _is_main(module, n)]
        lines += [f"## {heading}", "", *_table(module, names), *_directives(path, module, main)]
    return "\n".join(lines)


def _table(module: ModuleType, names: Sequence[str]) -> Iterator[str]:
    yield "| name | what it is or does |"
    yield "|---|---|"
    for name in names:
        value = _get(module, name)
        said = _sentence(value) if _is_main(module, name) else f"Same as `{value.__name__}`."
        yield f"| `{name}` | {said} |"
    yield ""


def _directives(path: str, module: ModuleType, names: Sequence[str]) -> Iterator[str]:
    yield "```{eval-rst}"
    yield f".. currentmodule:: {path}"
    yield ""
    for name in names:
        kind = "autoclass" if inspect.isclass(_get(module, name)) else "autofunction"
        kind = kind if callable(_get(module, name)) else "autodata"
        yield f".. {kind}:: {name}"
    yield "```"
    yield ""


def _sentence(value: Any) -> str:
    """Return the first paragraph of a docstring, as Markdown on one line."""
    text = (inspect.getdoc(value) or "").split("\n\n", maxsplit=1)[0]
    return re.sub(r"``(.*?)``", r"`\1`", " ".join(text.split())).replace("|", "\\|")


def _is_main(module: ModuleType, name: str) -> bool:
    """Return whether a name is the one that its object was defined under."""
    return getattr(_get(module, name), "__name__", name) == name


def _offered(module: ModuleType) -> list[str]:
    """Return the names that a module offers: its ``__all__``, or else what it defines."""
    names = vars(module).get("__all__") or [
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    ]
    return [n for n in names if n[0] != "_" and callable(_get(module, n))]


def _public() -> Sequence[str]:
    """Return the names of ``didyma``; type checkers see imports in place of ``__all__``."""
    names: Sequence[str] = vars(api)["__all__"]
    return names


def _get(module: ModuleType, name: str) -> Any:
    return getattr(module, name)


API_PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": main_page,
    "api-functions.md": functions_page,
    "api-modules.md": modules_page,
    "api-protocols.md": protocols_page,
}
