"""What ``dd`` has: names, help and completion, and what it says to a wrong name or call."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.functions import aliases, standard
from didyma.refimpl.errors import DidymaError

SPACES = ("complex", "fft", "linalg", "signal")
OTHERS = {
    "DidymaError", "Executable", "Interpreted", "Options", "Program", "Size", "Tensor",
    "as_complex", "check", "compile", "cond", "dim", "interpret", "load", "noinline", "scan",
    "trace", "while_loop",
}  # fmt: skip  # what is no function of tensors and constants


def test_dir_is_what_is_public() -> None:
    names = dir(dd)
    assert set(names) == {*standard.PUBLIC, "__version__"}
    assert not {n for n in names if n.startswith("_")} - {"__version__"}
    assert {"sum", "linalg", "fft", "zeros", "einsum", "f32", "float32", "concatenate"} <= {*names}
    hidden = {"annotations", "TYPE_CHECKING", "typing", "builtins", "np", "public", "wrong"}
    assert not hidden & {*names}
    for space in SPACES:
        module = getattr(dd, space)
        assert isinstance(module, ModuleType)
        assert module is importlib.import_module(f"didyma.{space}")
        assert dir(module) == sorted(module.__all__)


def _functions() -> dict[str, Any]:
    spaces = {f"{s}.": getattr(dd, s) for s in SPACES} | {"": dd}
    found = {f"{s}{n}": getattr(m, n) for s, m in spaces.items() for n in dir(m)}
    return {n: f for n, f in found.items() if inspect.isfunction(f) and n not in OTHERS}


@pytest.mark.parametrize("name", _functions())
def test_help_has_a_signature_and_words(name: str) -> None:
    f = _functions()[name]
    doc = inspect.getdoc(f)
    assert doc
    assert not doc.startswith(f.__name__ + "(")
    signature = inspect.signature(f)
    assert "args" not in signature.parameters or name == "meshgrid"
    text = pydoc.plain(pydoc.render_doc(f))
    own = name.rpartition(".")[2]
    alias = name in aliases.__all__
    assert f"{standard.target(name) if alias else own}(" in text
    if f.__module__ != "didyma.composites.fourier":
        assert "Example" in text or "Invert" in text or ">>>" in text, text


def test_a_star_import_leaves_pythons_own_names() -> None:
    code = "from didyma import *; assert sum([1, 2]) == 3; zeros((2,)); f32; fft.fft; einsum"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_is_light() -> None:
    code = (
        "import sys, didyma; assert 'numpy' not in sys.modules; import didyma.fft;"
        "assert 'didyma.codegen.pipeline' not in sys.modules;"
        "assert didyma.compile and 'hypothesis' not in sys.modules;"
        "assert didyma.testing and 'testing' in dir(didyma)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("module", "name", "call"), [
    (dd, "concatenat", "dd.concatenate"), (dd, "gather", "dd.take_along_axis"),
    (dd, "scatter_add", "dd.scatter"), (dd, "index_select", "dd.take"), (dd, "inv", "NumPy"),
    (dd, "unique", "dd.unique_values"), (dd, "softmx", "dd.softmax"), (dd, "vstack", "dd.concat"),
    (dd, "randn", "dd.random_normal"), (dd.fft, "fft2", "dd.fft.fftn"),
    (dd.linalg, "norm", "dd.linalg.vector_norm"), (dd.linalg, "svd", "decomposition"),
    (dd.complex, "sqrt", ""), (dd.signal, "han", "dd.signal.hann"),
])  # fmt: skip
def test_an_unknown_name_says_what_to_write(module: ModuleType, name: str, call: str) -> None:
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as e:
        getattr(module, name)
    assert isinstance(e.value, DidymaError)
    assert e.value.code == "unknown-name"
    assert call in e.value.help


@pytest.mark.parametrize("name", ["grad", "vmap", "det", "inv"])
def test_a_name_for_which_there_is_nothing_says_why(name: str) -> None:
    with pytest.raises(AttributeError) as e:
        getattr(dd, name)
    assert isinstance(e.value, DidymaError)
    assert e.value.help
    assert not e.value.help.startswith("write")


def test_what_the_import_system_asks_for_is_no_mistake_of_a_user() -> None:
    for name in ("__path_hooks__", "__wrapped__"):
        for module in (dd, dd.fft):
            with pytest.raises(AttributeError) as e:
                getattr(module, name)
            assert not isinstance(e.value, DidymaError)


Three = Callable[[dd.Tensor, dd.Tensor, dd.Tensor], Any]
NAMED: dict[str, tuple[Three, Three]] = {
    "layer_norm": (lambda x, y, z: dd.layer_norm(x, y[0, 0, 0], z[0, 0, 0]),
                   lambda x, y, z: dd.layer_norm(x, weight=y[0, 0, 0], bias=z[0, 0, 0])),
    "linear": (lambda x, y, z: dd.linear(x, y[0, 0], z[0, 0, 0]),
               lambda x, y, z: dd.linear(x, weight=y[0, 0], bias=z[0, 0, 0])),
    "conv2d": (lambda x, y, z: dd.conv2d(x, y, z[0, 0, 0], 1, 2),
               lambda x, y, z: dd.conv2d(x, y, bias=z[0, 0, 0], padding=2)),
    "max_pool2d": (lambda x, y, z: dd.max_pool2d(x, 2),
                   lambda x, y, z: dd.max_pool2d(x, kernel_size=2)),
    "attention": (lambda x, y, z: dd.scaled_dot_product_attention(x, y, z),
                  lambda x, y, z: dd.scaled_dot_product_attention(v=z, q=x, k=y)),
    "mse_loss": (lambda x, y, z: dd.mse_loss(x, y), lambda x, y, z: dd.mse_loss(x, target=y)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_operands_behind_the_first_may_be_named(name: str) -> None:
    positional, named = NAMED[name]
    types = [dd.f32[3, 3, 3, 3]] * 3
    assert str(dd.trace(*types)(positional)) == str(dd.trace(*types)(named))


Call = Callable[[Any], Any]
BAD: dict[str, tuple[str, Call, str]] = {
    "dim for axis": ("bad-call", lambda x: dd.sum(x, dim=1), "dim is called axis here"),  # type: ignore[call-arg]  # a user's
    "keepdim": ("bad-call", lambda x: dd.max(x, 1, keepdim=True), "keepdims"),  # type: ignore[call-arg]  # a user's
    "a tensor as axis": ("bad-call", lambda x: dd.sum(x, x), "axis"),
    "a list as tensor": ("bad-call", lambda x: dd.sum([1, 2]), "dd.asarray"),  # type: ignore[arg-type]  # a user's
    "two tensors to join": ("bad-call", lambda x: dd.concat(x, x), "Sequence[Tensor]"),
    "an operand missing": ("bad-call", lambda x: dd.add(x), "missing"),  # type: ignore[call-arg]  # a user's
    "an operand more": ("bad-call", lambda x: dd.sin(x, x), "too many"),  # type: ignore[call-arg]  # a user's
    "two numbers": ("bad-call", lambda x: dd.add(1, 2), "a tensor"),
    "a mask of two axes": ("rank-mismatch", lambda x: dd.compress(x, x > 0), "x[mask]"),
    "nonzero of a scalar": ("bad-call", lambda x: dd.nonzero(dd.sum(x)), "axes"),
    "a fractional axis": ("bad-call", lambda x: dd.flip(x, axis=0.5), "axis"),  # type: ignore[arg-type]  # a user's
    "a bool axis": ("bad-call", lambda x: dd.softmax(x, axis=True), "axis"),
    "a dtype that is none": ("bad-call", lambda x: dd.astype(x, "banana"), "dtype"),  # type: ignore[arg-type]  # a user's
    "a dtype of two meanings": ("bad-call", lambda x: dd.astype(x, "i8"), "dtype"),  # type: ignore[arg-type]  # a user's
    "a float mask": ("bad-call", lambda x: dd.where(x, x, x), "bool"),
    "a string": ("bad-call", lambda x: dd.clip(x, "0"), "min"),  # type: ignore[arg-type]  # a user's
    "softmax of axis 3": ("bad-axis", lambda x: dd.softmax(x, axis=3), "axis 3"),
    "log_softmax of axis -3": ("bad-axis", lambda x: dd.log_softmax(x, axis=-3), "axis -3"),
    "expand_dims of axis 5": ("bad-axis", lambda x: dd.expand_dims(x, axis=5), "axis 5"),
    "logsumexp": ("bad-axis", lambda x: dd.logsumexp(x, axis=(0, 2)), "axis 2"),
    "var": ("bad-axis", lambda x: dd.var(x, axis=2), "axis 2"),
    "layer_norm": ("bad-axis", lambda x: dd.layer_norm(x, axis=(2,)), "axis 2"),
    "rms_norm": ("bad-axis", lambda x: dd.rms_norm(x, axis=-4), "axis -4"),
    "one_hot": ("bad-axis", lambda x: dd.one_hot(dd.argmax(x, axis=1), 3, axis=2), "axis 2"),
    "the same axis twice": ("bad-axis", lambda x: dd.sum(x, axis=(0, -2)), "once"),
    "an axis forgotten": ("bad-axis", lambda x: dd.permute_dims(x, (1,)), "2 axes"),
    "an axis permuted twice": ("bad-axis", lambda x: dd.permute_dims(x, (1, 1)), "once"),
    "too few starts": ("bad-attr", lambda x: dd.slice(x, (0,), (1,)), "starts"),
    "pad of three widths": ("bad-call", lambda x: dd.pad(x, (1, 2, 3)), "pad_width"),
    "pad of one pair too many": ("bad-call", lambda x: dd.pad(x, ((1, 1),) * 3), "pad_width"),
    "a reshape that does not fit": ("shape-mismatch", lambda x: dd.reshape(x, (-1, 0)), "-1"),
    "nothing to join": ("bad-call", lambda x: dd.concat([]), "no tensors"),
    "other shapes": ("shape-mismatch", lambda x: dd.stack([x, dd.zeros(3)]), "one shape"),
    "unequal parts": ("bad-call", lambda x: dd.split(x, 2, axis=1), "equal parts"),
    "take without an axis": ("bad-call", lambda x: dd.take(x, dd.arange(2)), "axis"),
    "float places": ("bad-call", lambda x: dd.take(x, x, axis=0), "integers"),
    "a wrong equation": ("bad-attr", lambda x: dd.einsum("ij,jk", x), "terms"),
    "two sizes of a label": ("shape-mismatch", lambda x: dd.einsum("ij,jk", x, x), "'j'"),
    "no diagonal": ("shape-mismatch", lambda x: dd.einsum("ii", x), "one label"),
    "abs of text": ("bad-call", lambda x: dd.asarray("abc"), "dd.asarray"),
    "a step of 0": ("bad-call", lambda x: dd.arange(0, 3, 0), "step"),
    "sqrt of complex numbers": ("complex-operand", lambda x: dd.sqrt(dd.fft.fft(x)), "dd.complex"),
    "sum of complex numbers": ("complex-operand", lambda x: dd.sum(dd.fft.fft(x)), "dd.complex"),
    "a power of them": ("complex-operand", lambda x: dd.fft.fft(x) ** 2, "dd.complex"),
    "a number added to them": ("complex-operand", lambda x: dd.fft.fft(x) + 1, "both parts")
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_wrong_calls_are_told_in_codes(name: str) -> None:
    code, call, word = BAD[name]

    @dd.trace(dd.f32[2, 3])
    def program(x: dd.Tensor) -> Any:
        with pytest.raises(DidymaError) as e:
            call(x)
        assert e.value.code == code
        assert word in str(e.value)
        return x

    assert program.module


def test_complex_numbers_are_known_to_be() -> None:
    @dd.trace(dd.f32[6], dd.f32[4, 2])
    def program(x: dd.Tensor, pairs: dd.Tensor) -> tuple[dd.Tensor, ...]:
        z, w = dd.fft.rfft(x), dd.complex.view(pairs)
        return dd.abs(z), abs(w), z * w, dd.multiply(z, w) / w, dd.exp(w), -z - w, z * 2.0, z / 4

    r = np.random.default_rng(0)
    x = r.standard_normal(6).astype(np.float32)
    w = (r.standard_normal(4) + 1j * r.standard_normal(4)).astype(np.complex64)
    z = np.fft.rfft(x.astype(np.float64))
    truth = dd.interpret(program, x, w)
    wide = w.astype(np.complex128)
    want: tuple[Any, ...] = (
        abs(z),
        abs(wide),
        z * wide,
        z * wide / wide,
        np.exp(wide),
        -z - wide,
        z * 2,
        z / 4,
    )
    for bar, got, own in zip(truth.bars, truth.values, want, strict=True):
        there = np.stack([own.real, own.imag], -1) if own.dtype.kind == "c" else own
        assert got.shape == there.shape
        assert (np.abs(there.astype(np.float32) - bar.c) <= bar.e).all()


def test_arrays_and_numpys_dtypes_are_taken() -> None:
    @dd.trace(dd.f32[2, 3])
    def program(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        w: Any = np.ones((3, 2), np.float32)
        dtypes: list[Any] = [np.float16, "float64", np.dtype("int8"), dd.f32, x.dtype]
        return dd.matmul(x, w), *(dd.astype(x, d) for d in dtypes)

    y, *casts = dd.interpret(program, np.ones((2, 3), np.float32)).values
    assert y.tolist() == [[3, 3], [3, 3]]
    assert [c.dtype.name for c in casts] == ["float16", "float64", "int8", "float32", "float32"]


@pytest.mark.parametrize("index", [[0, 2], (2, 0), [True, False, True]])
def test_a_list_of_places_or_a_mask_is_taken_for_a_tensor(index: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    f = dd.compress if isinstance(index[0], bool) else dd.take

    def chosen(a: dd.Tensor) -> dd.Tensor:
        return f(a, index, axis=0)

    program = dd.trace(dd.f32[3, 2])(chosen)
    assert np.array_equal(dd.interpret(program, x).values[0], x[list(index)])
