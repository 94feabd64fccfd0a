"""The names of the Python Array API standard (2025.12), and the page that says which ``dd`` has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from didyma import api, fft, linalg
from didyma.functions import aliases, suggestions

MAIN = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "ceil", "clip",
    "complex128", "complex64", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero",
    "cumulative_prod", "cumulative_sum", "diff", "divide", "e", "empty", "empty_like", "equal",
    "exp", "expand_dims", "expm1", "eye", "finfo", "flip", "float32", "float64", "floor",
    "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot",
    "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isin",
    "isinf", "isnan", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder",
    "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin",
    "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "uint16",
    "uint32", "uint64", "uint8", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip
LINALG = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
FFT = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
PUBLIC: list[str] = vars(api)["__all__"]
NAMESPACES: Mapping[str, list[str]] = {"": MAIN, "linalg.": LINALG, "fft.": FFT}


def present() -> dict[str, list[str]]:
    """Names of the standard that ``dd`` has, by namespace."""
    here = {"": PUBLIC, "linalg.": linalg.__all__, "fft.": fft.__all__}
    return {space: [n for n in names if n in here[space]] for space, names in NAMESPACES.items()}


def page() -> str:
    """Return ``docs/array-api.md``: what of the standard there is, what not, and aliases."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# The Array API standard",
        "",
        "`nox -s docs` writes this page from the tables of names. `dd` has the names and",
        "signatures of the [Python Array API standard](https://data-apis.org/array-api/latest/)",
        "wherever a graph can express them. It differs from the standard as follows:",
        "",
        "- A tensor is a value of a function that is being traced, or a constant that it uses.",
        "  Sizes may be symbolic. The sizes of some results (`nonzero`, `unique_*`) depend on data",
        "  and are known only when the program runs.",
        "- The default dtypes are f32 and i64. `empty` returns zeros.",
        "- `take` replaces an index out of range by the nearest valid one. An integer divided by 0",
        "  is 0.",
        "- Complex numbers are pairs of reals: see [complex.md](complex.md). `dd.fft.fftfreq` and",
        "  `rfftfreq` return f32 unless `dtype` says otherwise.",
        "- `axis` may also be given by position.",
        "- A call that does not fit the signature raises `bad-call`, and an unknown name raises",
        "  `unknown-name`. Both errors show the right call where Didyma knows one.",
        "",
        "## What there is",
        "",
    )
    for space, names in present().items():
        title = {"": "Main namespace", "linalg.": "`linalg`", "fft.": "`fft`"}[space]
        yield f"{title}, {len(names)} of {len(NAMESPACES[space])}:"
        yield f"`{'`, `'.join(f'{space}{n}' for n in names)}`."
        yield ""
    yield from ("## What cannot be expressed", "", "| name | why |", "|---|---|")
    for name, why in sorted(suggestions.INEXPRESSIBLE.items()):
        yield f"| `{name}` | {why} |"
    yield from (
        "",
        "## Aliases",
        "",
        "These names of NumPy and PyTorch stand for the same functions. Other names of those",
        "libraries raise an error that shows the right call.",
        "",
        "| alias | function |",
        "|---|---|",
    )
    for name in sorted(aliases.__all__):
        yield f"| `dd.{name}` | `dd.{target(name)}` |"
    yield from ("", "## Instead", "", "| name | write |", "|---|---|")
    for name, call in sorted(suggestions.INSTEAD.items()):
        yield f"| `dd.{name}` | {call} |"


def target(alias: str) -> str:
    """Return the public name of the function that an alias stands for."""
    f = getattr(aliases, alias)
    names = [n for n in PUBLIC if n not in aliases.__all__ and getattr(api, n) is f]
    return names[0]
