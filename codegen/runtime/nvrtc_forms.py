"""Several forms of one file of CUDA C++, compiled together: most of NVRTC's time is its start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.runtime import device_code
from didyma.codegen.runtime.nvrtc import AS_NVCC, NvrtcCompiler
from didyma.refimpl.errors import DidymaError

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.M)
# What may stand at the beginning of a text: a directive, or a comment.
_FIRST = re.compile(r"(#(?:\\\n|[^\n])*)|//[^\n]*|/\*.*?\*/|\s+", re.S)
_BEGINNING = re.compile(f"(?:{_FIRST.pattern})*", re.S)
_OPENS, _CLOSES = (re.compile(rf"#\s*{w}") for w in ("if", "endif"))
_OF_C = re.compile(r'\bextern\s*"C"(?=\s+\w)')  # which only one function of a name may be
_REFUSED = re.compile(r"^form(\d+)\(\d+\): (?:catastrophic )?error", re.M)


@dataclass(frozen=True, slots=True)
class Forms:
    """PTX of some forms of a file.

    ``names`` has, by the number of a form, the names of its kernels as ``Module`` may have them;
    ``unset`` has the lines at which a form reads a variable that no path has set.
    """

    ptx: str
    names: Mapping[int, tuple[str, ...]]
    unset: Mapping[int, tuple[tuple[int, str], ...]]


def translated(
    compiler: NvrtcCompiler,
    texts: Mapping[int, str],
    kernels: Sequence[str],
    flags: Sequence[str],
    *,
    for_host: bool,
    kept: Sequence[str] = (),
) -> Iterator[Forms]:
    """Yield the PTX of some forms by their numbers; those that NVRTC refuses are left out.

    ``kernels`` are names in C++, or instances of templates.  ``for_host`` says that what of the
    texts is for the host must be left out.  ``kept`` are directives with which all of them begin,
    and of which what they include is kept for later texts.
    """
    headers = {**device_code.PLAIN}
    left = dict(texts)
    while left:
        joined = _joined(left, kept)
        source = device_code.device_part(joined) if for_host else joined
        own = {k: tuple(f"{scope(k)}::{n}" for n in kernels) for k in left}
        try:
            given = (*flags, *(AS_NVCC if for_host else ()))
            built = compiler.translate(
                source, "forms", given, _instances(own), headers, keep=bool(kept)
            )
        except DidymaError:  # a crash of NVRTC
            break
        if not built.failed:
            lowered = dict(zip(_instances(own), built.lowered, strict=True))
            names = {k: tuple(lowered.get(n, n) for n in row) for k, row in own.items()}
            unset = {k: compiler.unset(built, scope(k)) for k in left}
            yield Forms(compiler.text(built), names, unset)
            return
        lost = device_code.lost_headers(built.log) if for_host else ()
        refused = {int(n) for n in _REFUSED.findall(built.log)}
        if not refused and not {*lost} - {*headers}:
            break
        headers |= dict.fromkeys(lost, "")
        left = {k: t for k, t in left.items() if k not in refused}
    for half in _halves(left):
        yield from translated(compiler, half, kernels, flags, for_host=for_host, kept=kept)


def _halves(texts: Mapping[int, str]) -> tuple[dict[int, str], ...]:
    """Return halves of what no message says of which form it is refused; none of one form.

    >>> _halves({1: "a", 4: "b", 5: "c"}), _halves({1: "a"})
    (({1: 'a'}, {4: 'b', 5: 'c'}), ())
    """
    rows = [*texts.items()]
    middle = len(rows) // 2
    return (dict(rows[:middle]), dict(rows[middle:])) if middle else ()


def scope(number: int) -> str:
    """Return the namespace of a form, which is part of all its names in PTX."""
    return f"form{number:04}"


def _instances(names: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    return tuple(n for row in names.values() for n in row if "<" in n)


def beginning(text: str) -> tuple[str, ...]:
    """Return the directives with which a text begins, or those of all that it includes.

    These are for a text that begins with none, or whose first ones end within a condition.

    >>> beginning("// sums\\n#include <a>\\n\\n#define T 4\\nint f();\\n#undef T")
    ('#include <a>', '#define T 4')
    >>> beginning("#ifdef A\\n#include <a>\\nint f();\\n#endif")
    ('#include <a>',)
    """
    begins = _BEGINNING.match(text)
    found = [d for d in _FIRST.findall(begins[0]) if d] if begins else []
    opened, closed = (sum(bool(p.match(d)) for d in found) for p in (_OPENS, _CLOSES))
    return tuple(found if found and opened == closed else _INCLUDE.findall(text))


def _joined(texts: Mapping[int, str], kept: Sequence[str] = ()) -> str:
    """Return one text of several, each in a namespace, after what is kept and what they include.

    >>> print(_joined({3: "#include <a>\\nint f();"}))
    #include <a>
    namespace form0003 {
    #line 1 "form0003"
    <BLANKLINE>
    int f();
    }
    """
    included = dict.fromkeys(i for t in texts.values() for i in _INCLUDE.findall(t))
    more = (i for i in included if i not in kept)
    parts = (
        f'namespace {scope(k)} {{\n#line 1 "{scope(k)}"\n{_OF_C.sub("", _INCLUDE.sub("", t))}\n}}'
        for k, t in texts.items()
    )
    return "\n".join((*kept, *more, *parts))
