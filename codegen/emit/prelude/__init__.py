"""The meaning of kernel text on each target: types and intrinsics, cut down to what a text uses.

The definitions are C in ``common.c``, ``host.c``, ``cuda.c`` and ``cuda_chain.c``, and of
intrinsics that only some targets have in ``host_families.c`` and ``cuda_families.c``; their
notation is explained at the head of ``common.c``.  ``driver.c`` runs a grid on the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import Literal, TypeAlias

from didyma.codegen.emit.intrinsics import NBYTES, TYPES, WIDTHS, components
from didyma.codegen.emit.prelude import groups
from didyma.refimpl.ir.types import F8

Target: TypeAlias = Literal["host", "cuda"]

_TYPES = "".join(f"typedef {c} {name};\n" for name, c in TYPES.items())
_HEAD: dict[Target, str] = {
    "host": "#define FN static inline\n#define __align__(n) __attribute__((aligned(n)))\n"
    "#define __grid_constant__\n" + _TYPES,
    "cuda": "#define FN __device__ static __forceinline__\n" + _TYPES,
}

_FILES: dict[Target, tuple[str, ...]] = {"host": ("host.c",), "cuda": ("cuda.c", "cuda_chain.c")}

_SIGNED = ("i8", "i16", "i32", "i64")
_UNSIGNED = ("u8", "u16", "u32", "u64")
_SMALL = (*_SIGNED, "u8", "u16", "u32")  # ints that i64 holds
_FLOATS = ("f32", "f64")
_GROUPS = {
    "signed": _SIGNED,
    "unsigned": _UNSIGNED,
    "small": _SMALL,
    "ints": (*_SIGNED, *_UNSIGNED),
    "floats": _FLOATS,
    "types": tuple(TYPES),
    "f8s": tuple(d.value for d in F8),
    "widths": tuple(map(str, WIDTHS)),
    **{f"bytes{n}": tuple(t for t in TYPES if NBYTES[t] == n) for n in (1, 2, 4)},
}
_BITS = {t: 8 * n for t, n in NBYTES.items()}
_INF = {"f32": "0x7f800000u", "f64": "0x7ff0000000000000ull"}
_NAN = {"f32": "0x7fc00000u", "f64": "0x7ff8000000000000ull"}

_WORD = re.compile(r"[A-Za-z_]\w*")
_HOLE = re.compile(
    r"(?<![A-Za-z0-9])(?:T(?=x(?:2|4|8|16)\b)"
    r"|(?:T|F|U|OP|BITS|TMIN|TMAX|LO|HI|INF|NAN|(?:ALIGN|WORD|PARTS)(?:2|4|8|16))(?![A-Za-z0-9]))|@"
)
_LANES = re.compile(r"^.*`.*\n", re.MULTILINE)
_DEFINES = re.compile(r"^#define (\w+)|^FN \w+ (\w+)\(|^typedef .* (\w+);$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prelude:
    """The definitions of a target by name."""

    target: Target
    head: str
    definitions: Mapping[str, str]

    def extended(self, more: Sequence[tuple[str, str]]) -> Prelude:
        """Return a prelude with definitions in the notation of its files beside its own.

        Each is a text that is repeated for the dtypes of floats, and one that stands as it is.
        """
        found = dict(self.definitions)
        for repeated, plain in more:
            found.update(_definitions(f"//: T in floats\n{repeated}"))
            found.update(_definitions(plain))
        return replace(self, definitions=found)

    def uses(self, text: str) -> list[str]:
        """Names with a definition that the text mentions."""
        return sorted(self.definitions.keys() & set(_WORD.findall(text)))

    def select(self, text: str) -> str:
        """Return the types and the definitions that ``text`` needs, each after what it uses.

        >>> print(load("host").select("y = isnan_f32(x);").splitlines()[-1])
        FN b8 isnan_f32(f32 x) { return x != x; }
        """
        chosen: dict[str, str] = {}
        seen: set[str] = set()

        def visit(name: str) -> None:
            if name not in seen:
                seen.add(name)
                definition = self.definitions[name]
                for used in self.uses(definition):
                    visit(used)
                chosen[name] = definition

        for name in self.uses(text):
            visit(name)
        return "\n".join([self.head, *chosen.values(), ""])


@cache
def load(target: Target) -> Prelude:
    """Read the definitions of a target."""
    folder = files("didyma.codegen.emit.prelude")
    definitions: dict[str, str] = {}
    for file in (*_FILES[target], f"{target}_families.c", "common.c"):
        for name, definition in _definitions((folder / file).read_text(encoding="utf-8")):
            assert name not in definitions, f"{name} is defined twice for {target}"
            definitions[name] = definition
    if target == "cuda":
        definitions.update(groups.definitions())
    return Prelude(target, _HEAD[target], MappingProxyType(definitions))


def _definitions(source: str) -> Iterator[tuple[str, str]]:
    """Yield each definition of a file under its name, once for each dtype it is repeated for."""
    loops: list[tuple[str, tuple[str, ...]]] = []
    for paragraph in re.split(r"\n\s*\n", source.strip()):
        if paragraph.startswith("//:"):
            directive, _, paragraph = paragraph.partition("\n")
            loops = list(_loops(directive.removeprefix("//:")))
        variables = [v for v, _ in loops]
        for values in product(*(group for _, group in loops)):
            if len(set(values)) < len(values):
                continue  # a cast from a dtype to itself
            text = _fill(paragraph, dict(zip(variables, values, strict=True)))
            if defined := _DEFINES.search(text):  # a paragraph without one is a comment
                yield next(g for g in defined.groups() if g), text


def _loops(directive: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for clause in filter(None, map(str.strip, directive.split(","))):
        variable, _, groups = clause.partition(" in ")
        yield variable, tuple(t for g in groups.split() for t in _GROUPS.get(g, (g,)))


def _fill(paragraph: str, values: Mapping[str, str]) -> str:
    if not values:
        return paragraph
    if "$" in values:
        paragraph = _LANES.sub(lambda m: _each_lane(m[0], int(values["$"])), paragraph)
        paragraph = paragraph.replace("$", values["$"])
    floats = [d for d in values.values() if d in _FLOATS]
    given = {**values, "@": "f" if floats == ["f32"] else ""}
    of_type = _of_type(values.get("T", "b8"))
    return _HOLE.sub(lambda m: given[m[0]] if m[0] in given else of_type[m[0]], paragraph)


@cache
def _of_type(t: str) -> Mapping[str, str]:
    """Return what fills the holes that hang on the type ``T``."""
    bits = _BITS[t]
    top = bits - 1 if t in _SIGNED else bits
    found = {
        "U": "u64" if bits == 64 else "u32",
        "BITS": str(bits),
        "TMIN": f"(-{2**top - 1}ll - 1)" if t in _SIGNED else "0",
        "TMAX": f"{2**top - 1}{'ll' if t in _SIGNED else 'ull'}",
        "HI": f"{2**top}.0",
        "LO": f"-{2**top}.0",
        "INF": _INF.get(t, ""),
        "NAN": _NAN.get(t, ""),
        **{k: v for n in WIDTHS for k, v in _vector(n * bits // 8, n).items()},
    }
    return MappingProxyType(found)


def _each_lane(line: str, width: int) -> str:
    return "".join(line.replace("`", name) for name in components(width))


def _vector(nbytes: int, lanes: int) -> dict[str, str]:
    """Return how a vector is aligned, and the words of CUDA's own that it is moved in."""
    word = {2: "u16", 4: "u32", 8: "uint2"}.get(nbytes, "uint4")
    return {
        f"ALIGN{lanes}": str(min(16, nbytes)),
        f"WORD{lanes}": word,
        f"PARTS{lanes}": str(max(1, nbytes // 16)),
    }
