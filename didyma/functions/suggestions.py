"""Names that users of other libraries look for: what to write instead, or why there is nothing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from didyma.refimpl.errors import DidymaError

DECOMPOSED = "it needs a decomposition, whose steps depend on the data: compute it with NumPy"
COMPLEX = "there is no complex dtype: complex numbers are pairs of reals, see dd.complex"

# Names of the Array API standard (2024.12 and 2025.12) that do not exist here, and why.
INEXPRESSIBLE: Mapping[str, str] = {
    "complex64": COMPLEX,
    "complex128": COMPLEX,
    "conj": COMPLEX + ".conj",
    "imag": COMPLEX + ".imag",
    "real": COMPLEX + ".real",
    "linalg.cholesky": DECOMPOSED,
    "linalg.det": DECOMPOSED,
    "linalg.eigh": DECOMPOSED,
    "linalg.eigvalsh": DECOMPOSED,
    "linalg.inv": DECOMPOSED,
    "linalg.matrix_rank": DECOMPOSED,
    "linalg.pinv": DECOMPOSED,
    "linalg.qr": DECOMPOSED,
    "linalg.slogdet": DECOMPOSED,
    "linalg.solve": DECOMPOSED,
    "linalg.svd": DECOMPOSED,
    "linalg.svdvals": DECOMPOSED,
    "__array_namespace_info__": "dtypes and devices are those of an engine: see `didyma doctor`",
}

# Names of other libraries for which there is nothing to write, and why.
ABSENT: Mapping[str, str] = {
    "det": "dd.linalg has no det: " + DECOMPOSED,
    "grad": "Didyma takes no derivatives: write them as a function of tensors",
    "inv": "dd.linalg has no inv: " + DECOMPOSED,
    "vmap": "every function broadcasts leading axes",
}

# What people write in other libraries where an alias would mislead, and what to write here.
INSTEAD: Mapping[str, str] = {
    "adaptive_avg_pool2d": "dd.mean(x, axis=(2, 3), keepdims=True) for one place",
    "argwhere": "dd.nonzero(x), stacked: dd.stack(dd.nonzero(x), axis=1)",
    "fft.fft2": "dd.fft.fftn(x, axes=(-2, -1))",
    "fft.ifft2": "dd.fft.ifftn(x, axes=(-2, -1))",
    "fft.rfft2": "dd.fft.rfftn(x, axes=(-2, -1))",
    "fft.irfft2": "dd.fft.irfftn(x, axes=(-2, -1))",
    "linalg.norm": "dd.linalg.vector_norm(x) or dd.linalg.matrix_norm(x)",
    "average": "dd.mean(x, axis)",
    "atleast_2d": "dd.expand_dims(x, 0)",
    "chunk": "dd.split(x, parts, axis=axis)",
    "column_stack": "dd.stack(arrays, axis=1)",
    "cross": "dd.linalg.cross(x, y)",
    "diag": "dd.linalg.diagonal(x), or dd.eye(n) * x to build one",
    "diagonal": "dd.linalg.diagonal(x)",
    "dstack": "dd.concat(arrays, axis=2)",
    "expand": "dd.broadcast_to(x, shape)",
    "flipud": "dd.flip(x, axis=0)",
    "fliplr": "dd.flip(x, axis=1)",
    "float": "dd.f32",
    "from_numpy": "dd.asarray(array)",
    "gather": "dd.take_along_axis(x, indices, axis=axis), PyTorch's gather; dd.take for rows",
    "global_avg_pool": "dd.mean(x, axis=(2, 3), keepdims=True)",
    "hstack": "dd.concat(arrays, axis=1)",
    "index_add": 'dd.scatter(x, indices, updates, axis=axis, reduction="add")',
    "index_select": "dd.take(x, indices, axis=axis)",
    "inner": "dd.vecdot(x, y) or dd.tensordot",
    "interpolate": "dd.repeat(x, factor, axis=axis) for whole factors; ONNX's Resize is imported",
    "int": "dd.i32 or dd.i64",
    "isclose": "dd.abs(x - y) <= tolerance",
    "allclose": "dd.all(dd.abs(x - y) <= tolerance)",
    "jit": "@dd.trace, then dd.compile",
    "l1_loss": "dd.mean(dd.abs(x - y))",
    "masked_fill": "dd.where(mask, value, x)",
    "masked_select": "dd.compress(x, mask)",
    "median": "dd.sort(x), and the middle element",
    "Module": "a function of tensors under @dd.trace",
    "nn": "the functions of neural networks as dd.relu, dd.softmax, dd.conv, dd.layer_norm, ...",
    "functional": "the functions of neural networks as dd.relu, dd.softmax, dd.conv, ...",
    "narrow": "x[start:stop], or dd.slice",
    "nanmax": "dd.max(dd.where(dd.isnan(x), -dd.inf, x), axis)",
    "nansum": "dd.sum(dd.where(dd.isnan(x), 0.0, x), axis)",
    "nan_to_num": "dd.where(dd.isnan(x), 0.0, x)",
    "norm": "dd.linalg.vector_norm(x, axis=axis)",
    "normalize": "x / dd.linalg.vector_norm(x, axis=-1, keepdims=True)",
    "outer": "dd.linalg.outer(x, y)",
    "ptp": "dd.max(x, axis) - dd.min(x, axis)",
    "rand": "dd.random_uniform(seed, shape)",
    "randn": "dd.random_normal(seed, shape)",
    "random": "dd.random_uniform(seed, shape), dd.random_normal(seed, shape)",
    "relu6": "dd.clip(x, 0, 6)",
    "resize": "dd.repeat(x, factor, axis=axis) for whole factors; ONNX's Resize is imported",
    "scatter_add": 'dd.scatter(x, indices, updates, axis=axis, reduction="add")',
    "segment_sum": 'dd.scatter(dd.zeros(n), indices, x, reduction="add")',
    "t": "dd.matrix_transpose(x), x.T",
    "tensor": "dd.asarray(numbers)",
    "unique": "dd.unique_values(x), dd.unique_all(x)",
    "vdot": "dd.vecdot(x, y)",
    "vstack": "dd.concat(arrays, axis=0)",
    "while": "dd.while_loop(test, body, *carried)",
}


class UnknownName(DidymaError, AttributeError):
    """A name that a module of Didyma does not have; an AttributeError, as ``hasattr`` expects."""


def refuser(module: str, names: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return a module's ``__getattr__`` that says what to write instead of an unknown name."""
    known = tuple(names)

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise unknown(module, name, known)

    return refuse


def unknown(module: str, name: str, names: Iterable[str]) -> UnknownName:
    """Return the error for a name that a module lacks, which says what to write instead.

    >>> print(unknown("dd", "scatter_ad", ["scatter", "sum"]))
    unknown-name at `dd.scatter_ad`
      got:  a name that dd does not have
      want: a name in dir(dd)
      help: perhaps dd.scatter
    """
    key = name if module == "dd" else f"{module.removeprefix('dd.')}.{name}"
    absent = INEXPRESSIBLE.get(key) or ABSENT.get(key)
    if absent is not None:
        help = absent
    elif key in INSTEAD:
        help = f"write {INSTEAD[key]}"
    else:
        close = difflib.get_close_matches(name, list(names), 3, 0.6)
        help = f"perhaps {', '.join(f'{module}.{c}' for c in close)}" if close else ""
    return UnknownName(
        "unknown-name", f"{module}.{name}", got=f"a name that {module} does not have",
        want=f"a name in dir({module})", help=help,
    )  # fmt: skip
