"""Layers of transformers, node by node as exporters write them: ``torch.onnx``, and optimum by it.

A layer has float weights in one dtype, which are initializers; batch and sequence are open sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import free, model, value

WIDE, HEADS, DEPTH, MOST = 320, 10, 32, 48  # features, heads, their features, the longest sequence
SEQUENCE = ("batch", "sequence")


class Writer:
    """The nodes and weights of a graph that is written; each call of an op adds a node."""

    def __init__(self, dtype: type[np.floating[Any]]) -> None:
        self.dtype = np.dtype(dtype)
        self.type = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.drawn = np.random.default_rng(0)

    def __getattr__(self, op: str) -> Callable[..., str]:
        def call(*inputs: Any, **attrs: Any) -> str:
            return self.node(op, 1, *inputs, **attrs)[0]

        return call

    def node(self, op: str, results: int, *inputs: Any, **attrs: Any) -> list[str]:
        """Add a node; numbers and lists of integers among the inputs become constants."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        made = [f"{op}_{len(self.nodes)}_{n}" for n in range(results)]
        self.nodes.append(helper.make_node(op, names, made, **attrs))
        return made

    def constant(self, x: Any) -> str:
        """Return a constant: of integers as i64, of floats in the dtype of the weights."""
        a = np.asarray(x)
        a = a.astype(self.dtype) if a.dtype.kind == "f" else a
        return self.held(a.astype(np.int64) if a.dtype.kind == "i" else a)

    def held(self, a: Array) -> str:
        """Return a constant as it is."""
        self.weights[name := f"c{len(self.weights)}"] = a
        return name

    def weight(self, *shape: int) -> str:
        """Return random weights, around zero."""
        return self.constant(self.drawn.standard_normal(shape) * (1.0 / shape[0]) ** 0.5)

    def model(
        self, inputs: Mapping[str, onnx.ValueInfoProto], y: str, opset: int
    ) -> onnx.ModelProto:
        """Return the model of which a value is the output."""
        nodes = [*self.nodes, helper.make_node("Identity", [y], ["y"])]
        return model(nodes, [*inputs.values()], [free("y", self.type)], opset, **self.weights)

    # What layers are made of ----------------------------------------------------------------

    def linear(self, x: str, n: int = WIDE, out: int = WIDE) -> str:
        """Multiply by weights and add a bias."""
        return self.Add(self.weight(out), self.MatMul(x, self.weight(n, out)))

    def size(self, x: str, axis: int) -> str:
        """Return a size as a vector of one, as a traced ``x.size(axis)`` is."""
        return self.Unsqueeze(self.Gather(self.Shape(x), axis, axis=0), [0])

    def heads(self, x: str, perm: tuple[int, ...] = (0, 2, 1, 3), heads: int = HEADS) -> str:
        """Split features into heads, and order axes."""
        shape = self.Concat(self.size(x, 0), self.size(x, 1), [heads], [DEPTH], axis=0)
        return self.Transpose(self.Reshape(x, shape), perm=perm)

    def merged(self, x: str) -> str:
        """Join the features of heads."""
        y = self.Transpose(x, perm=(0, 2, 1, 3))
        return self.Reshape(y, self.Concat(self.size(y, 0), self.size(y, 1), [WIDE], axis=0))

    def expand(self, x: str, *sizes: Any) -> str:
        """Broadcast, where -1 keeps a size: a traced ``x.expand(sizes)``."""
        shape = self.Concat(*sizes, axis=0)
        one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
        ones = self.ConstantOfShape(self.Shape(shape), value=one)
        return self.Expand(x, self.Where(self.Equal(shape, self.Mul(ones, -1)), ones, shape))

    def norm(self, x: str, opset: int) -> str:
        """Normalise rows, by one node from opset 17 on."""
        by, off = self.constant(1 + self.drawn.random(WIDE)), self.weight(WIDE)
        if opset >= 17:
            return self.LayerNormalization(x, by, off, axis=-1, epsilon=1e-5)
        far = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        spread = self.ReduceMean(self.Pow(far, 2.0), axes=[-1])
        return self.Add(self.Mul(self.Div(far, self.Sqrt(self.Add(spread, 1e-5))), by), off)

    def root_mean(self, x: str) -> str:
        """Normalise rows by the root of their mean square, in f32."""
        wide = self.Cast(x, to=TensorProto.FLOAT)
        two, least = self.single(2.0), self.single(1e-6)
        mean = self.ReduceMean(self.Pow(wide, two), axes=[-1])
        inverse = self.Div(self.single(1.0), self.Sqrt(self.Add(mean, least)))
        by = self.constant(1 + self.drawn.random(WIDE))
        return self.Mul(by, self.Cast(self.Mul(wide, inverse), to=self.type))

    def single(self, x: float) -> str:
        """Return a constant of f32, whatever the weights are."""
        return self.held(np.array(x, np.float32))

    def gelu(self, x: str) -> str:
        """Return the gelu by erf."""
        return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, 2.0**0.5)), 1.0)), 0.5)


Layer: TypeAlias = Callable[[Writer, int], onnx.ModelProto]


def bert(g: Writer, opset: int) -> onnx.ModelProto:
    """Return a layer of BERT: scores divided, and a mask of 0 and 1 that becomes a term."""
    q, v = g.heads(g.linear("x")), g.heads(g.linear("x"))
    k = g.heads(g.linear("x"), (0, 2, 3, 1))
    mask = g.Cast(g.Unsqueeze(g.Unsqueeze("mask", [1]), [2]), to=g.type)
    away = g.Mul(g.Sub(1.0, mask), float(np.finfo(g.dtype).min))
    weights = g.Softmax(g.Add(g.Div(g.MatMul(q, k), float(DEPTH**0.5)), away), axis=-1)
    y = g.norm(g.Add(g.linear(g.merged(g.MatMul(weights, v))), "x"), opset)
    y = g.norm(g.Add(g.linear(g.gelu(g.linear(y, WIDE, 4 * WIDE)), 4 * WIDE), y), opset)
    mask_type = value("mask", *SEQUENCE, type=TensorProto.INT64)
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type), "mask": mask_type}, y, opset)


def gpt2(g: Writer, opset: int) -> onnx.ModelProto:
    """Return a block of GPT-2: one product for all three, and a part of a constant as the mask."""
    h = g.norm("x", opset)
    flat = g.Gemm(g.Reshape(h, [-1, WIDE]), g.weight(WIDE, 3 * WIDE), g.weight(3 * WIDE))
    wide = g.Reshape(flat, g.Concat(g.size(h, 0), g.size(h, 1), [3 * WIDE], axis=0))
    q, k, v = g.node("Split", 3, wide, [WIDE] * 3, axis=2)
    q, k, v = g.heads(q), g.heads(k, (0, 2, 3, 1)), g.heads(v)
    bias = g.constant(np.tril(np.ones((1, 1, MOST, MOST), bool)))
    length = g.size("x", 1)
    seen = g.Slice(g.Slice(bias, [0], length, [2], [1]), [0], length, [3], [1])
    scores = g.Div(g.MatMul(q, k), float(DEPTH**0.5))
    weights = g.Softmax(g.Where(seen, scores, float(np.finfo(g.dtype).min)), axis=-1)
    x = g.Add(g.linear(g.merged(g.MatMul(weights, v))), "x")
    h = g.linear(g.norm(x, opset), WIDE, 4 * WIDE)
    inner = g.Mul(g.Add(h, g.Mul(g.Pow(h, 3.0), 0.044715)), (2 / np.pi) ** 0.5)
    act = g.Mul(g.Mul(h, 0.5), g.Add(g.Tanh(inner), 1.0))
    y = g.Add(x, g.linear(act, 4 * WIDE))
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type)}, y, opset)


def attended(g: Writer, q: str, k: str, v: str, mask: str = "") -> str:
    """Return ``scaled_dot_product_attention`` as ``torch.onnx`` writes it; the mask is boolean.

    The scale is computed from the shape, and its root multiplies queries and keys.
    """
    last = g.Cast(g.Slice(g.Shape(q), [-1], [2**63 - 1]), to=g.type)
    scale = g.Sqrt(g.Div(1.0, g.Sqrt(last)))
    left, right = g.Mul(q, scale), g.Mul(g.Transpose(k, perm=(0, 1, 3, 2)), scale)
    scores = g.MatMul(left, right)
    if not mask:
        return g.MatMul(g.Softmax(scores, axis=-1), v)
    w = g.Softmax(g.Add(scores, g.Where(mask, [0.0], [-np.inf])), axis=-1)
    return g.MatMul(g.Where(g.IsNaN(w), [0.0], w), v)


def vit(g: Writer, opset: int) -> onnx.ModelProto:
    """Return a block of a ViT, whose attention has no mask."""
    h = g.norm("x", opset)
    y = attended(g, *(g.heads(g.linear(h)) for _ in range(3)))
    x = g.Add(g.linear(g.merged(y)), "x")
    y = g.Add(g.linear(g.gelu(g.linear(g.norm(x, opset), WIDE, 4 * WIDE)), 4 * WIDE), x)
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type)}, y, opset)


def padded(g: Writer, opset: int) -> onnx.ModelProto:
    """Return attention with a mask of padding, boolean as in sequences of several lengths."""
    q, k, v = (g.heads(g.linear("x")) for _ in range(3))
    there = g.Unsqueeze(g.Unsqueeze(g.Cast("mask", to=TensorProto.BOOL), [1]), [2])
    shape = g.Concat(g.size("x", 0), [1], g.size("x", 1), g.size("x", 1), axis=0)
    y = g.linear(g.merged(attended(g, q, k, v, g.Expand(there, shape))))
    mask_type = value("mask", *SEQUENCE, type=TensorProto.INT64)
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type), "mask": mask_type}, y, opset)


def causal(g: Writer, opset: int) -> onnx.ModelProto:
    """Return causal attention: ``is_causal`` as ``torch.onnx`` writes it."""
    q, k, v = (g.heads(g.linear("x")) for _ in range(3))
    sizes = (g.Slice(g.Shape(x), [-2], [-1]) for x in (q, k))
    ones = g.Expand(1.0, g.Concat(*sizes, axis=0))
    seen = g.Cast(g.Trilu(ones, upper=0), to=TensorProto.BOOL)
    y = g.linear(g.merged(attended(g, q, k, v, seen)))
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type)}, y, opset)


def whisper(g: Writer, opset: int) -> onnx.ModelProto:
    """Return attention of Whisper's decoder to what was heard: batches and heads are one axis."""

    def flat(x: str) -> str:
        return g.Reshape(x, g.Concat(g.Mul(g.size(x, 0), [HEADS]), [-1], [DEPTH], axis=0))

    q = flat(g.heads(g.Mul(g.linear("x"), float(DEPTH**-0.5))))
    k = flat(g.heads(g.MatMul("heard", g.weight(WIDE, WIDE))))
    v = flat(g.heads(g.linear("heard")))
    weights = g.Softmax(g.MatMul(q, g.Transpose(k, perm=(0, 2, 1))), axis=-1)
    shape = g.Concat(g.size("x", 0), [HEADS], g.size("x", 1), [DEPTH], axis=0)
    y = g.Add("x", g.linear(g.merged(g.Reshape(g.MatMul(weights, v), shape))))
    heard = value("heard", "batch", "frames", WIDE, type=g.type)
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type), "heard": heard}, y, opset)


def llama(g: Writer, opset: int) -> onnx.ModelProto:
    """Return a block of Llama: turned queries and keys, two heads of queries for one of keys."""
    shared, pairs = HEADS // 2, DEPTH // 2
    h = g.root_mean("x")
    sizes = {"q": HEADS, "k": shared, "v": shared}
    q, k, v = (g.heads(g.MatMul(h, g.weight(WIDE, n * DEPTH)), heads=n) for n in sizes.values())
    rates = g.held(np.float32(1e4 ** (-np.arange(pairs) / pairs)).reshape(1, pairs, 1))
    at = g.Cast(g.Unsqueeze("at", [1]), to=TensorProto.FLOAT)
    angle = g.Transpose(g.MatMul(g.expand(rates, g.size("at", 0), [-1], [1]), at), perm=(0, 2, 1))
    both = g.Concat(angle, angle, axis=-1)
    cos, sin = (g.Unsqueeze(g.Cast(y, to=g.type), [1]) for y in (g.Cos(both), g.Sin(both)))

    def turned(x: str) -> str:
        low, high = g.Slice(x, [0], [pairs], [3], [1]), g.Slice(x, [pairs], [2**63 - 1], [3], [1])
        half = g.Concat(g.Neg(high), low, axis=-1)
        return g.Add(g.Mul(x, cos), g.Mul(half, sin))

    def repeated(x: str) -> str:
        batch, length = g.size(x, 0), g.size(x, 2)
        wide = g.expand(g.Unsqueeze(x, [2]), batch, [shared], [2], length, [DEPTH])
        return g.Reshape(wide, g.Concat(batch, [HEADS], length, [DEPTH], axis=0))

    q, k, v = turned(q), repeated(turned(k)), repeated(v)
    length = g.Gather(g.Shape("x"), 1, axis=0)
    places = g.Range(0, length, 1)
    ahead = g.Greater(places, g.Reshape(places, [-1, 1]))
    away = g.Where(ahead, float(np.finfo(g.dtype).min), 0.0)
    mask = g.Unsqueeze(g.Unsqueeze(away, [0]), [0])
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=(0, 1, 3, 2))), float(DEPTH**-0.5))
    wide = g.Softmax(g.Cast(g.Add(scores, mask), to=TensorProto.FLOAT), axis=-1)
    y = g.merged(g.MatMul(g.Cast(wide, to=g.type), v))
    x = g.Add("x", g.MatMul(y, g.weight(WIDE, WIDE)))
    h = g.root_mean(x)
    gate = g.MatMul(h, g.weight(WIDE, 2 * WIDE))
    up = g.Mul(g.Mul(gate, g.Sigmoid(gate)), g.MatMul(h, g.weight(WIDE, 2 * WIDE)))
    y = g.Add(x, g.MatMul(up, g.weight(2 * WIDE, WIDE)))
    at_type = value("at", *SEQUENCE, type=TensorProto.INT64)
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type), "at": at_type}, y, opset)


def one_op(g: Writer, opset: int) -> onnx.ModelProto:
    """Return causal attention by the operator of opset 23, two heads of queries for one of keys."""
    shared = HEADS // 2
    q, k, v = (g.heads(g.linear("x", WIDE, n * DEPTH), heads=n) for n in (HEADS, shared, shared))
    y = g.linear(g.merged(g.Attention(q, k, v, is_causal=1)))
    return g.model({"x": value("x", *SEQUENCE, WIDE, type=g.type)}, y, opset)


LAYERS: Mapping[str, Layer] = {
    f.__name__: f for f in (bert, gpt2, vit, padded, causal, whisper, llama, one_op)
}
