"""What of a .cu file is for the device: the rest is blanked out, and lines keep their numbers.

NVRTC refuses functions of the host.  Files of kernels have them; they also include headers of the
host, of which kernels want a few names at most.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DEVICE = ("__global__", "__device__", "__constant__", "__shared__", "__managed__")
# Comments, literals and directives, which have no structure.
_OPAQUE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.S | re.M,
)
_SCOPE = re.compile(r'\s*(?:inline\s+)?(?:namespace\b\s*([\w:]*)[^;(]*|extern\s*"[^"]*"\s*)$', re.S)
_CLASS = re.compile(r"\b(?:class|struct|union|enum)\b")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)]*\))?((?:\\\n|[^\n])*)", re.M)
_NAME = re.compile(r"(\w+)\s*(?:<[^<>]*>\s*)?\(")
_LAMBDA = re.compile(r"(\])((?:\s*__(?:host|device)__)+)(?=\s*[({])")
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic )?error", re.M)
_LOST = re.compile(r'cannot open source file "([^"]+)"')

_INTEGERS = "".join(
    f"typedef {sign} {kind} {'u' * (sign == 'unsigned')}int{bits}_t;\n"
    for sign in ("signed", "unsigned")
    for kind, bits in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
)
_LIMITS = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""
_FLOATS = """#pragma once
#define FLT_RADIX 2
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_EPSILON 1.1920928955078125e-07f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_MAX 3.40282346638528859812e+38f
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_EPSILON 2.2204460492503130808e-16
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_MAX 1.79769313486231570815e+308
"""
_MATH = """#pragma once
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define HUGE_VALF __int_as_float(0x7f800000)
"""
_CONSTANTS = """#pragma once
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F __int_as_float(0x00000001)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_NEG_ZERO_F __int_as_float((int)0x80000000)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_LOG2E_F 1.442695041f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LNTWO_F 0.693147181f
#define CUDART_LN2_F 0.693147181f
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_SQRT_2_OVER_PI_F 0.797884561f
#define CUDART_INF __longlong_as_double(0x7ff0000000000000LL)
#define CUDART_NAN __longlong_as_double((long long)0xfff8000000000000ULL)
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_L2E 1.4426950408889634e+0
#define CUDART_LN2 6.9314718055994529e-1
"""
_TENSOR_MAP = """#pragma once
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
"""
_EMPTY = (
    "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "stdio.h",
    "stdlib.h", "assert.h", "string.h", "cstdio", "cstdlib", "cstring", "cassert", "iostream",
    "vector", "string", "memory", "map", "set", "list", "deque", "queue", "stack", "unordered_map",
    "unordered_set", "functional", "random", "chrono", "fstream", "sstream", "iomanip", "ostream",
    "istream", "iosfwd", "thread", "mutex", "atomic", "condition_variable", "future", "exception",
    "stdexcept", "system_error", "typeinfo", "cctype", "ctype.h", "ctime", "time.h", "sys/time.h",
    "unistd.h", "sys/types.h", "cstdarg", "stdarg.h", "errno.h", "cerrno", "signal.h", "omp.h",
    "stddef.h", "cstddef", "stdbool.h", "inttypes.h", "cinttypes", "filesystem", "regex", "bitset",
    "locale", "complex", "valarray", "initializer_list", "new",
    "device_functions.h", "device_atomic_functions.h", "sm_20_atomic_functions.h",
    "math_functions.h", "device_types.h", "vector_types.h",
    "vector_functions.h", "cuda_profiler_api.h", "driver_types.h", "cublas_v2.h",
    *(f"thrust/{name}.h" for name in (
        "binary_search", "copy", "count", "device_free", "device_malloc", "device_ptr",
        "device_vector", "execution_policy", "extrema", "fill", "for_each", "gather", "generate",
        "host_vector", "inner_product", "merge", "partition", "random", "reduce", "remove",
        "replace", "reverse", "scan", "scatter", "sequence", "sort", "system/cuda/execution_policy",
        "transform", "transform_reduce", "transform_scan", "unique", "universal_vector",
    )),
)  # fmt: skip
# Headers of the C++ library that have counterparts for the device, where those are installed.
_STANDARD = (
    "algorithm", "array", "cmath", "limits", "numeric", "optional", "ratio", "span", "tuple",
    "type_traits", "utility", "iterator", "variant", "cfloat", "bit", "concepts", "numbers",
)  # fmt: skip
_CUB = """#pragma once
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
"""
# What headers of the host have for kernels: nothing but a few types and constants.
PLAIN: Mapping[str, str] = {
    **dict.fromkeys(_EMPTY, ""),
    **dict.fromkeys(_STANDARD, ""),
    **dict.fromkeys(("stdint.h", "cstdint", "inttypes.h"), f"#pragma once\n{_INTEGERS}"),
    **dict.fromkeys(("limits.h", "climits"), _LIMITS),
    **dict.fromkeys(("float.h", "cfloat"), _FLOATS),
    **dict.fromkeys(("math.h", "cmath"), _MATH),
    **dict.fromkeys(("cuda.h", "cudaTypedefs.h"), _TENSOR_MAP),
    "math_constants.h": _CONSTANTS,
    "cub/cub.cuh": _CUB,
}
STANDARD: Mapping[str, str] = {
    **PLAIN,
    **{
        name: f"#pragma once\n{PLAIN[name].replace('#pragma once', '')}"
        f"#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n"
        "namespace std { using namespace cuda::std; }\n#endif\n"
        for name in _STANDARD
    },
}


@cache
def include_folders() -> tuple[str, ...]:
    """Return the folders of CUDA's own headers: of NVIDIA's wheels, and of the toolkit."""
    wheels = [Path(p) / "nvidia" for p in sys.path if p and (Path(p) / "nvidia").is_dir()]
    found = [f for w in wheels for f in sorted(w.glob("*/include")) if f.is_dir()]
    homes = [os.environ.get(v, "") for v in ("CUDA_HOME", "CUDA_PATH")]
    found += [Path(h) / "include" for h in (*homes, "/usr/local/cuda") if h]
    folders = [f for f in found if f.is_dir()]
    return tuple(map(str, [*folders, *(f / "cccl" for f in folders if (f / "cccl").is_dir())]))


@dataclass(frozen=True, slots=True)
class Part:
    """A declaration of namespace scope: where it is, and what stands before its braces.

    ``scope`` are the named namespaces that it is in, such as ``a::b``.
    """

    start: int
    end: int
    head: str
    braced: bool
    scope: str = ""


def parts(text: str) -> Iterator[Part]:
    """Yield the declarations of a file of C++; those in namespaces one by one.

    >>> [p.head.strip() for p in parts("int a; namespace n { void f() { g(); } } struct S { };")]
    ['int a', 'void f()', 'struct S']
    """
    plain = _OPAQUE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    start = at = depth = 0
    opened = -1
    scopes = list[str]()
    for m in re.finditer(r"[{}()\[\];]", plain):
        at, ch = m.start(), m[0]
        if ch in "([":
            depth += 1
        elif ch in ")]":
            depth -= 1
        elif ch == "{":
            if not depth and opened < 0:
                if scope := _SCOPE.match(_without_comments(text[start:at])):
                    scopes.append(scope[1] or "")
                    start = at + 1
                    continue
                opened = at
            depth += 1
        elif ch == "}":
            if not depth:  # the end of a namespace
                del scopes[-1:]
                start = at + 1
                continue
            depth -= 1
            head = plain[start:opened] if opened >= 0 else ""
            if not depth and opened >= 0 and not _goes_on(head):
                yield Part(start, at + 1, head, True, "::".join(filter(None, scopes)))
                start, opened = at + 1, -1
        elif not depth:
            head = plain[start : opened if opened >= 0 else at]
            yield Part(start, at + 1, head, opened >= 0, "::".join(filter(None, scopes)))
            start, opened = at + 1, -1


def _without_comments(head: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*", " ", head, flags=re.S | re.M)


def _goes_on(head: str) -> bool:
    """Whether a declaration with braces ends with a semicolon: a class or an initialiser."""
    return bool(_CLASS.search(re.sub(r"template\s*<[^{]*>", "", head)) and "(" not in head) or (
        "=" in head and "operator" not in head and "(" not in head
    )


def device_part(text: str) -> str:
    """Return a file without the functions of the host that no code of the device names.

    Lambdas lose the marks that say where they run, which nvcc reads and NVRTC refuses: all that is
    left runs on the device.

    >>> print(device_part("__global__ void k() {} int main() { k<<<1, 1>>>(); }").rstrip())
    __global__ void k() {}
    >>> print(device_part("__device__ int f(int a) { return [=] __device__ () { return a; }(); }"))
    __device__ int f(int a) { return [=]            () { return a; }(); }
    """
    text = _LAMBDA.sub(lambda m: m[1] + re.sub(r"\S", " ", m[2]), text)
    marks = {*_DEVICE, *(m[1] for m in _MACRO.finditer(text) if any(d in m[2] for d in _DEVICE))}
    found = list(parts(text))
    words = [{*re.findall(r"\w+", text[p.start : p.end])} for p in found]
    kept = [
        bool(w & marks) or not p.braced or not _is_function(p)
        for p, w in zip(found, words, strict=True)
    ]
    named = {w for ws, keep in zip(words, kept, strict=True) if keep for w in ws}
    grown = True
    while grown:
        grown = False
        for k, ws in enumerate(words):
            if not kept[k] and _function(found[k]) in named - {"main"}:
                kept[k] = grown = True
                named |= ws
    return blanked(
        text, [(p.start, p.end) for p, keep in zip(found, kept, strict=True) if not keep]
    )


def reached(text: str, instances: Sequence[str]) -> str:
    """Return a text in which instances of templates can be named without their namespaces.

    >>> text = "namespace a { template <int N> __global__ void f() {} }"
    >>> reached(text, ["f<3>"]).removeprefix(text)
    '\\nusing namespace a;\\n'
    """
    bare = {i.partition("<")[0] for i in instances} - {""}
    if not bare or "namespace" not in text:
        return text
    scopes = dict.fromkeys(p.scope for p in parts(text) if p.scope and _function(p) in bare)
    return text + "".join(f"\nusing namespace {s};\n" for s in scopes)


def _is_function(p: Part) -> bool:
    return "(" in p.head and not re.search(
        r"\b(?:class|struct|union)\s+\w+\s*(?:final\s*)?(?::[^:]|$)", p.head
    )


def _function(p: Part) -> str:
    head = re.sub(r"\b__\w+__\s*\([^()]*\)", "", p.head)  # such as __launch_bounds__(256)
    m = _NAME.search(re.sub(r"template\s*<[^{}]*?>\s*(?=\w)", "", head))
    return m[1] if m else ""


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with spaces in place of all but the ends of lines and the directives there."""
    for a, b in spans:
        inside = "\n".join(
            line if line.lstrip().startswith("#") else " " * len(line)
            for line in text[a:b].split("\n")
        )
        text = text[:a] + inside + text[b:]
    return text


def without(text: str, lines: Sequence[int]) -> str:
    """Return a text without those declarations at some lines that are not for the device."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    marks = {*_DEVICE, *(m[1] for m in _MACRO.finditer(text) if any(d in m[2] for d in _DEVICE))}
    spans: list[tuple[int, int]] = []
    for p in parts(text):
        if {*re.findall(r"\w+", text[p.start : p.end])} & marks:
            continue
        if any(p.start < starts[n] + 1 and starts[n - 1] < p.end for n in lines if n < len(starts)):
            spans.append((p.start, p.end))
    return blanked(text, spans)


def error_lines(log: str, file: str) -> list[int]:
    """Return the lines of a file that messages of NVRTC name."""
    return [int(m[2]) for m in _ERROR.finditer(log) if m[1] == file]


def lost_headers(log: str) -> list[str]:
    """Return the headers that NVRTC does not find."""
    return _LOST.findall(log)
