"""Whole models in bf16 on a GPU: whether they are right, and their times beside PyTorch's.

    python3 -m tests.gpu.whole_models [--seconds 120] [--mode max-autotune] [MODEL ...]

A resnet50 of 32 images, a GPT block of 4 × 1,024 tokens and an encoder of the size of MiniLM on
32 × 128 tokens.  Each is written once, over functions that Didyma and PyTorch both have, and
gets the same random weights.  What is wrong is told by the distance from PyTorch's result in f32,
in units of the distance that PyTorch's own result in bf16 has.  PyTorch runs as it stands and by
``torch.compile`` in a mode, each model in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

import didyma as dd
from didyma.bench import gpu
from didyma.codegen.runtime.cuda import Cuda

Shape: TypeAlias = tuple[int, ...]
Model: TypeAlias = Callable[..., Any]
FARTHEST = 2.0  # times PyTorch's own distance
ROUND = 8  # contenders take turns; each turn has as many calls


@dataclass(frozen=True, slots=True)
class Whole:
    """A model: its function of a library, the input, and what it has of weights."""

    function: Model
    given: Shape
    weights: tuple[Shape, ...]


class Didyma:
    """What the models call, of Didyma."""

    linear, gelu, relu, add = dd.linear, dd.gelu, dd.relu, dd.add
    reshape, permute, mean = dd.reshape, dd.permute, dd.mean
    layer_norm = dd.layer_norm

    @staticmethod
    def attend(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, causal: bool) -> dd.Tensor:
        """Return scaled dot-product attention."""
        return dd.scaled_dot_product_attention(q, k, v, None, causal)

    @staticmethod
    def conv(x: dd.Tensor, w: dd.Tensor, stride: int, padding: int) -> dd.Tensor:
        """Convolve images; their channels and the weights' come last."""
        y = dd.conv2d(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), None, stride, padding)
        return dd.moveaxis(y, 1, -1)

    @staticmethod
    def pool(x: dd.Tensor) -> dd.Tensor:
        """Return the largest of windows of 3 × 3 at stride 2."""
        return dd.moveaxis(dd.max_pool2d(dd.moveaxis(x, -1, 1), 3, 2, 1), 1, -1)


class Torch:
    """The same, of PyTorch."""

    def __init__(self) -> None:
        self.torch: Any = import_module("torch")
        f = self.f = self.torch.nn.functional
        self.linear, self.gelu, self.relu, self.add = f.linear, f.gelu, f.relu, self.torch.add
        self.reshape, self.permute, self.mean = (
            self.torch.reshape, self.torch.permute, self.torch.mean,
        )  # fmt: skip

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        """Normalise rows."""
        return self.f.layer_norm(x, x.shape[-1:], weight, bias)

    def attend(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        """Return scaled dot-product attention."""
        return self.f.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def conv(self, x: Any, w: Any, stride: int, padding: int) -> Any:
        """Convolve images; their channels and the weights' come last, as PyTorch's are fastest."""
        x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        return self.f.conv2d(x, w, None, stride, padding).permute(0, 2, 3, 1)

    def pool(self, x: Any) -> Any:
        """Return the largest of windows of 3 × 3 at stride 2."""
        return self.f.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1)


def block(wide: int, heads: int, first: bool, causal: bool) -> tuple[Model, tuple[Shape, ...]]:
    """Return a transformer's block, with norms first or last, and the shapes of its weights."""

    def f(o: Any, x: Any, *w: Any) -> Any:
        def norm(y: Any, n: int) -> Any:
            return o.layer_norm(y, w[n], w[n + 1])

        batch, length = x.shape[0], x.shape[1]

        def split(y: Any) -> Any:
            return o.permute(o.reshape(y, (batch, length, heads, wide // heads)), (0, 2, 1, 3))

        h = norm(x, 8) if first else x
        q, k, v = (split(o.linear(h, w[n], w[n + 1])) for n in (0, 2, 4))
        mixed = o.reshape(o.permute(o.attend(q, k, v, causal), (0, 2, 1, 3)), (batch, length, wide))
        x = o.add(x, o.linear(mixed, w[6], w[7]))
        x = x if first else norm(x, 8)
        h = norm(x, 10) if first else x
        x = o.add(x, o.linear(o.gelu(o.linear(h, w[12], w[13])), w[14], w[15]))
        return x if first else norm(x, 10)

    square = ((wide, wide), (wide,)) * 4
    return f, (*square, *((wide,),) * 4, (4 * wide, wide), (4 * wide,), (wide, 4 * wide), (wide,))


def encoder(layers: int, wide: int, heads: int) -> tuple[Model, tuple[Shape, ...]]:
    """Return an encoder of as many blocks."""
    one, weights = block(wide, heads, first=False, causal=False)

    def f(o: Any, x: Any, *w: Any) -> Any:
        for n in range(layers):
            x = one(o, x, *w[n * len(weights) : (n + 1) * len(weights)])
        return x

    return f, weights * layers


def resnet() -> tuple[Model, tuple[Shape, ...]]:
    """Return a resnet50 whose norms are scales and shifts, as they are once it is trained."""
    weights = list[Shape]()

    def unit(out: int, size: int, channels: int) -> int:
        weights.extend([(out, size, size, channels), (out,), (out,)])
        return len(weights) - 3

    stem = unit(64, 7, 3)
    blocks, channels = list[tuple[int, tuple[int, ...], int | None]](), 64
    for stage, (count, narrow) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for n in range(count):
            stride = 2 if stage and not n else 1
            units = unit(narrow, 1, channels), unit(narrow, 3, narrow), unit(4 * narrow, 1, narrow)
            short = None if n else unit(4 * narrow, 1, channels)
            channels = 4 * narrow
            blocks.append((stride, units, short))
    head = len(weights)
    weights.extend([(1000, channels), (1000,)])

    def f(o: Any, x: Any, *w: Any) -> Any:
        def normed(y: Any, n: int, stride: int, padding: int) -> Any:
            return o.conv(y, w[n], stride, padding) * w[n + 1] + w[n + 2]

        x = o.pool(o.relu(normed(x, stem, 2, 3)))
        for stride, (a, b, c), short in blocks:
            y = o.relu(normed(x, a, 1, 0))
            y = normed(o.relu(normed(y, b, stride, 1)), c, 1, 0)
            x = o.relu(y + (x if short is None else normed(x, short, stride, 0)))
        return o.linear(o.mean(x, (1, 2)), w[head], w[head + 1])

    return f, tuple(weights)


def whole(made: tuple[Model, tuple[Shape, ...]], given: Shape) -> Whole:
    """Join a model and the shape of its input."""
    return Whole(made[0], given, made[1])


MODELS: Mapping[str, Whole] = MappingProxyType({
    "gpt": whole(block(768, 12, first=True, causal=True), (4, 1024, 768)),
    "minilm": whole(encoder(6, 384, 12), (32, 128, 384)),
    "resnet50": whole(resnet(), (32, 224, 224, 3)),
})  # fmt: skip


def program(w: Whole) -> dd.Program:
    """Trace a model with all its weights as inputs."""

    def f(*given: dd.Tensor) -> dd.Tensor:
        result: dd.Tensor = w.function(Didyma, *given)
        return result

    names = ["x", *(f"w{n}" for n, _ in enumerate(w.weights))]
    told = Signature([Parameter(n, Parameter.POSITIONAL_ONLY) for n in names])
    f.__signature__ = told  # type: ignore[attr-defined]  # which inspect looks for
    return dd.trace(*(dd.bf16[s] for s in (w.given, *w.weights)))(f)


def drawn(torch: Any, w: Whole) -> list[Any]:
    """Draw the input, matrices that keep its size, and vectors around a half."""
    torch.manual_seed(0)

    def one(shape: Shape) -> Any:
        x = torch.randn(shape, device="cuda")
        return x * (1.5 / prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.5 + 0.3 * x

    weights = [one(s) for s in w.weights]
    return [x.bfloat16() for x in (torch.randn(w.given, device="cuda"), *weights)]


def seconds(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Time contenders in turn; the median of each."""
    clock, taken = gpu.Clock(), dict[str, list[float]]()
    for _ in range(3):
        for name, call in calls.items():
            taken.setdefault(name, []).extend(clock.seconds([call] * ROUND))
    return {name: statistics.median(xs) for name, xs in taken.items()}


def report(name: str, mode: str) -> bool:
    """Judge and time a model; print a line, and return whether it is right."""
    w = MODELS[name]
    torch: Any = import_module("torch")
    given, o = drawn(torch, w), Torch()
    want = w.function(o, *(x.float() for x in given))
    eager: Callable[..., Any] = partial(w.function, o)
    begin = time.perf_counter()
    traced: dd.Program = program(w)
    exe = dd.compile(traced, engine="cuda")
    got = torch.as_tensor(exe(*given))
    early = dd.compile(traced, engine=Cuda(checked=False, early=True))
    same = all(torch.equal(got, torch.as_tensor(early(*given))) for _ in range(8))
    print(f"{name}: first call after {time.perf_counter() - begin:.1f} s", flush=True)
    own = float((eager(*given).float() - want).norm())
    off = float((got.float() - want).norm()) / own
    peers = {"torch": partial(eager, *given)}
    if mode:
        begin = time.perf_counter()
        best: Callable[..., Any] = torch.compile(eager, mode=mode)
        best(*given)
        print(f"{name}: torch.compile took {time.perf_counter() - begin:.1f} s", flush=True)
        peers[f"torch.{mode}"] = partial(best, *given)
    with torch.no_grad():
        ours = {"didyma": partial(exe, *given), "early": partial(early, *given)}
        taken = seconds({**ours, **peers})
    told = "  ".join(f"{k} {1e6 * s:.1f} us" for k, s in taken.items())
    ratio = min(taken[peer] for peer in peers) / taken["didyma"]
    print(f"{name}: {told}  {ratio:.2f} times the best peer's speed, {off:.2f} of its error,"
          f" {'the same' if same else 'other'} bits early", flush=True)  # fmt: skip
    return off <= FARTHEST and same


def main(argv: Sequence[str] | None = None) -> int:
    """Report on each model in a process of its own; 1 if one was wrong or took too long."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("models", nargs="*", choices=[*MODELS, []])
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--mode", default="max-autotune", help="of torch.compile; empty: without")
    p.add_argument("--alone", choices=[*MODELS])
    a = p.parse_args(argv)
    gpu.require()
    if a.alone:
        return int(not report(a.alone, a.mode))
    wrong = 0
    for name in a.models or MODELS:
        command = [sys.executable, "-m", "tests.gpu.whole_models", "--alone", name]
        command += ["--mode", a.mode]
        try:
            wrong += bool(subprocess.run(command, timeout=a.seconds, check=False).returncode)
        except subprocess.TimeoutExpired:
            print(f"{name}: not done within {a.seconds:g} s", flush=True)
            wrong += 1
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
