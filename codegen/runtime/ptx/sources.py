"""CUDA C++ of a user, and PTX, to kernels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from didyma.codegen.runtime import device_code, nvrtc_forms
from didyma.codegen.runtime.nvrtc import AS_NVCC, ATTEMPTS, NvrtcCompiler, Translated
from didyma.codegen.runtime.ptx.code import Module
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.meaning import HEADER, Meaning
from didyma.codegen.runtime.ptx.text import NEWEST, parse
from didyma.refimpl.errors import DidymaError, reason

ARCHITECTURE = "compute_90a"
# Translations of a source, by the options of NVRTC.
Made: TypeAlias = "dict[tuple[str, ...], Translated]"
_MANGLED = re.compile(r"_Z(N?)L?(\d.*)$")


@dataclass(frozen=True, slots=True)
class Source:
    """A text of CUDA C++ or of PTX, and the name of its file."""

    text: str
    file: str

    @classmethod
    def read(cls, path: Path) -> Source:
        """Read a file; DidymaError ``unreadable-file``."""
        try:
            return cls(path.read_text(encoding="utf-8-sig", errors="replace"), path.name)
        except OSError as e:
            raise DidymaError(
                "unreadable-file", str(path), got=reason(e), want="a .cu or .ptx file"
            ) from e

    def line(self, file: str, line: int) -> str:
        """Return the text of a line of this file; empty for another file."""
        lines = self.text.splitlines()
        return lines[line - 1].strip() if file == self.file and 0 < line <= len(lines) else ""


def compiled(
    source: Source,
    kernel: str,
    flags: Sequence[str] = (),
    attempts: int = ATTEMPTS,
    meaning: Meaning | None = None,
    *,
    keep: bool = False,
    made: Made | None = None,
) -> Kernel:
    """Compile a kernel of a source; what is for the host is left out in so many attempts.

    ``kernel`` may be the name in C++ of a function that is no template, or an instance of one.
    Empty, it is the only kernel.  With ``keep``, what the text includes is kept for others that
    begin with the same directives.  With a ``meaning`` of constants it runs in the ring.
    Translations that are ``made`` already, of all that is no template, are taken from there.
    EngineMissing without NVRTC; DidymaError ``kernel-text``,
    ``bad-ptx``, ``unknown-instruction``, ``unknown-kernel``.
    """
    if source.file.endswith(".ptx"):
        module = parse(source.text, NEWEST)
        if not module.kernels:
            raise DidymaError("bad-ptx", source.file, got="no .entry", want="PTX of a kernel")
        return _chosen(module, kernel, meaning)
    if made is not None and "<" not in kernel:
        found = replace(_translation(source, flags, made), name=kernel)
    else:
        compiler = NvrtcCompiler(ARCHITECTURE, HEADER if meaning is not None else "")
        found = compiler.ptx(source.text, source.file, flags, kernel, attempts, keep=keep)
    module = replace(parse(found.ptx), unset=found.unset, attempts=found.attempts)
    return _chosen(module, found.name, meaning)


def _translation(source: Source, flags: Sequence[str], made: Made) -> Translated:
    """Return the translation of a source with such options of NVRTC, which is made once."""
    key = tuple(flags)
    if key not in made:
        made[key] = NvrtcCompiler(ARCHITECTURE).ptx(source.text, source.file, flags)
    return made[key]


def forms(
    texts: Sequence[str],
    kernels: Sequence[str],
    flags: Sequence[str],
    *,
    for_host: bool,
    kept: Sequence[str] = (),
) -> list[tuple[Kernel, ...] | None]:
    """Compile the kernels of several forms of a text together; None for what cannot be compiled.

    ``for_host`` says that what of them is for the host must be left out; ``kept`` are directives
    with which all of them begin, and of which what they include is kept for the next forms.
    """
    compiler = NvrtcCompiler(ARCHITECTURE)
    found: list[tuple[Kernel, ...] | None] = [None] * len(texts)
    left = [dict(enumerate(texts))]
    while left:
        for made in nvrtc_forms.translated(
            compiler, left.pop(), kernels, flags, for_host=for_host, kept=kept
        ):
            try:
                module = parse(made.ptx)
            except DidymaError:  # NVRTC does not read inline PTX
                rows = [*made.names]
                middle = len(rows) // 2
                halves = (rows[:middle], rows[middle:]) if middle else ()
                left += [{k: texts[k] for k in half} for half in halves]
                continue
            for k, names in made.names.items():
                own = replace(_without(module, {*made.names} - {k}), unset=made.unset[k])
                with suppress(DidymaError):
                    found[k] = tuple(_chosen(own, n) for n in names)
    return found


def translated(
    text: str, kernels: Sequence[str], flags: Sequence[str], *, for_host: bool, keep: bool = False
) -> tuple[Kernel, ...] | str:
    """Compile the kernels of a text; return what NVRTC says where it refuses the text.

    ``for_host`` says that what of the text is for the host must be left out; ``keep`` is that of
    ``compiled``.
    """
    compiler = NvrtcCompiler(ARCHITECTURE)
    source = device_code.device_part(text) if for_host else text
    given = (*flags, *(AS_NVCC if for_host else ()))
    instances = tuple(n for n in kernels if "<" in n)
    headers = {**device_code.PLAIN}
    built = compiler.translate(source, "text", given, instances, headers, keep=keep)
    lost = device_code.lost_headers(built.log) if built.failed and for_host else ()
    if lost:
        headers |= dict.fromkeys(lost, "")
        built = compiler.translate(source, "text", given, instances, headers, keep=keep)
    if built.failed:
        return built.log
    lowered = dict(zip(instances, built.lowered, strict=True))
    module = parse(compiler.text(built))
    return tuple(_chosen(module, lowered.get(n, n)) for n in kernels)


def _without(module: Module, others: Collection[int]) -> Module:
    """Return a module without what is of some forms."""
    marks = [nvrtc_forms.scope(k) for k in others]

    def own(name: str) -> bool:
        return not any(m in name for m in marks)

    return replace(
        module,
        functions={n: f for n, f in module.functions.items() if own(n)},
        variables={n: v for n, v in module.variables.items() if own(n)},
    )


def names(source: Source, flags: Sequence[str], made: Made) -> tuple[str, ...]:
    """Return the kernels of a source by their names in PTX; a template's instances are not known.

    The translation is added to what is ``made``.  Errors as of ``compiled``.
    """
    if source.file.endswith(".ptx"):
        return tuple(parse(source.text, NEWEST).kernels)
    return tuple(parse(_translation(source, flags, made).ptx).kernels)


def unoptimised(
    source: Source, kernel: str, flags: Sequence[str] = (), *, made: Made | None = None
) -> tuple[Kernel, ...]:
    """Compile a kernel of CUDA C++ without optimisation, which removes faults.

    Nothing for PTX, nor where NVRTC has no unoptimised translation, as for some inline PTX.
    ``made`` is that of ``compiled``.
    """
    if source.file.endswith(".ptx"):
        return ()
    try:
        return (compiled(source, kernel, (*flags, "-G"), made=made),)
    except DidymaError:
        return ()


def _chosen(module: Module, kernel: str, meaning: Meaning | None = None) -> Kernel:
    names = module.kernels
    if kernel not in names:
        plain = {n: _plain(n) for n in names}
        near = [n for n, p in plain.items() if f"::{p}".endswith(f"::{kernel}") or not kernel]
        if len(near) == 1:
            return Kernel(module, near[0], meaning)
        raise DidymaError(
            "unknown-kernel", kernel or "--kernel",
            got=(kernel or "no name") if names else "a text without kernels, but for templates",
            want=f"one of {', '.join(_distinct(near or names))}" if names else "a kernel",
            help="of a template, name an instance: --kernel 'f<float, 128>'",
        )  # fmt: skip
    return Kernel(module, kernel, meaning)


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names as a user would write them, but for those that would be taken for each other.

    >>> _distinct(["_Z4scanPi", "_Z3addPi", "_Z3addPf"])
    ['scan', '_Z3addPi', '_Z3addPf']
    """
    plain = {n: _plain(n) for n in names}
    often = Counter(plain.values())
    return [p if often[p] == 1 else n for n, p in plain.items()]


def _plain(name: str) -> str:
    """Return the name in C++ of a function, without its parameters; unnamed scopes have none.

    >>> _plain("_ZN1a1b4scanEPi"), _plain("_Z4scanPi"), _plain("scan")
    ('a::b::scan', 'scan', 'scan')
    """
    m = _MANGLED.match(name)
    if m is None:
        return name
    parts, rest = list[str](), m[2]
    while count := re.match(r"\d+", rest):
        end = count.end() + int(count[0])
        parts.append(rest[count.end() : end])
        rest = rest[end:] if m[1] else ""
    return "::".join(p for p in parts if not p.startswith("_GLOBAL__N_"))
