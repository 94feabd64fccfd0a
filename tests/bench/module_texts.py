"""Tasks in the manner of KernelBench: ``python -m tests.bench.module_texts FOLDER``.

It writes a file in Python for each: a module of PyTorch, its arguments, and random inputs as
benchmarks draw them, positive ones where they do.  ``python -m tests.bench.decoys FOLDER`` then
tells which of them can tell the right answer from cheats.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent
from typing import NamedTuple


class Task(NamedTuple):
    """What a task computes of x, y and z, their shapes, and lines of its ``__init__``."""

    forward: str
    inputs: tuple[tuple[int, ...], ...]
    made: str = ""


_ROWS, _SQUARE = ((16, 1024),), ((64, 64), (64, 64))
_IMAGES, _SERIES = ((4, 8, 16, 16),), ((4, 8, 64),)
_LINEAR = "self.linear = nn.Linear(64, 32)"
_CONV = "self.conv = nn.Conv2d(8, 16, 3"

TASKS: dict[str, Task] = {
    # Products
    "square_matmul": Task("torch.matmul(x, y)", _SQUARE),
    "batched_matmul": Task("torch.bmm(x, y)", ((4, 16, 32), (4, 32, 24))),
    "matrix_vector": Task("torch.matmul(x, y)", ((64, 256), (256, 1))),
    "matmul_transposed_a": Task("torch.matmul(x.T, y)", ((96, 32), (96, 48))),
    "matmul_transposed_b": Task("torch.matmul(x, y.T)", ((32, 96), (48, 96))),
    "diagonal_matmul": Task("x.unsqueeze(1) * y", ((64,), (64, 64))),
    "upper_triangular": Task("torch.triu(torch.matmul(x, y))", _SQUARE),
    "lower_triangular": Task("torch.tril(torch.matmul(x, y))", _SQUARE),
    "tensor_matmul": Task("torch.matmul(x, y)", ((4, 8, 32), (32, 16))),
    # Elementwise
    "relu": Task("torch.relu(x)", _ROWS),
    "leaky_relu": Task("F.leaky_relu(x, negative_slope=0.01)", _ROWS),
    "sigmoid": Task("torch.sigmoid(x)", _ROWS),
    "tanh": Task("torch.tanh(x)", _ROWS),
    "swish": Task("x * torch.sigmoid(x)", _ROWS),
    "gelu": Task("F.gelu(x)", _ROWS),
    "selu": Task("torch.selu(x)", _ROWS),
    "elu": Task("F.elu(x, alpha=1.0)", _ROWS),
    "hardsigmoid": Task("F.hardsigmoid(x)", _ROWS),
    "hardtanh": Task("F.hardtanh(x, min_val=-1.0, max_val=1.0)", _ROWS),
    "softplus": Task("F.softplus(x)", _ROWS),
    "softsign": Task("x / (1 + torch.abs(x))", _ROWS),
    "new_gelu": Task(
        "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))",
        _ROWS,
    ),
    "scaled": Task("x * 3.14", _ROWS),
    # Rows
    "softmax": Task("torch.softmax(x, dim=1)", _ROWS),
    "log_softmax": Task("torch.log_softmax(x, dim=1)", _ROWS),
    "sum": Task("torch.sum(x, dim=1, keepdim=True)", ((8, 64, 16),)),
    "mean": Task("torch.mean(x, dim=1)", ((8, 64, 16),)),
    "max": Task("torch.max(x, dim=1)[0]", ((8, 64, 16),)),
    "min": Task("torch.min(x, dim=1)[0]", ((8, 64, 16),)),
    "argmax": Task("torch.argmax(x, dim=1)", ((8, 64, 16),)),
    "cumsum": Task("torch.cumsum(x, dim=1)", _ROWS),
    "reverse_cumsum": Task("torch.cumsum(x.flip(1), dim=1).flip(1)", _ROWS),
    "cumprod": Task("torch.cumprod(x, dim=1)", ((16, 32),)),
    "layer_norm": Task("self.norm(x)", _ROWS, "self.norm = nn.LayerNorm(1024)"),
    "rms_norm": Task(
        "x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)", _IMAGES
    ),
    "l1_norm": Task("x / torch.sum(torch.abs(x), dim=1, keepdim=True)", _ROWS),
    "l2_norm": Task("x / torch.norm(x, p=2, dim=1, keepdim=True)", _ROWS),
    "frobenius_norm": Task("x / torch.norm(x, p='fro')", ((16, 64),)),
    "batch_norm": Task("self.norm(x)", _IMAGES, "self.norm = nn.BatchNorm2d(8).eval()"),
    "group_norm": Task("self.norm(x)", _IMAGES, "self.norm = nn.GroupNorm(2, 8)"),
    "instance_norm": Task("self.norm(x)", _IMAGES, "self.norm = nn.InstanceNorm2d(8)"),
    # Losses
    "mse_loss": Task("torch.mean((x - y) ** 2)", ((16, 64), (16, 64))),
    "huber_loss": Task("F.smooth_l1_loss(x, y)", ((16, 64), (16, 64))),
    "cosine_loss": Task(
        "torch.mean(1 - F.cosine_similarity(x, y, dim=1))", ((16, 64), (16, 64))
    ),
    "hinge_loss": Task(
        "torch.mean(torch.clamp(1 - x * torch.sign(y - 0.5), min=0))",
        ((16,), (16,)),
    ),
    # Windows
    "conv2d": Task("self.conv(x)", _IMAGES, _CONV + ")"),
    "conv2d_strided": Task("self.conv(x)", _IMAGES, _CONV + ", stride=2, padding=1)"),
    "conv2d_dilated": Task("self.conv(x)", _IMAGES, _CONV + ", dilation=2, bias=False)"),
    "depthwise": Task(
        "self.conv(x)", _IMAGES, "self.conv = nn.Conv2d(8, 8, 3, groups=8, padding=1)"
    ),
    "conv1d": Task("self.conv(x)", _SERIES, "self.conv = nn.Conv1d(8, 16, 3)"),
    "conv_transposed": Task(
        "self.conv(x)", _IMAGES, "self.conv = nn.ConvTranspose2d(8, 4, 3, stride=2)"
    ),
    "max_pool": Task("self.pool(x)", _IMAGES, "self.pool = nn.MaxPool2d(2, stride=2)"),
    "average_pool": Task("self.pool(x)", _SERIES, "self.pool = nn.AvgPool1d(4, padding=1)"),
    # Several operations
    "linear_relu": Task("torch.relu(self.linear(x))", ((16, 64),), _LINEAR),
    "linear_scaled_residual": Task(
        "self.linear(x) * 0.5 + self.linear(x)", ((16, 64),), _LINEAR
    ),
    "linear_mish": Task(
        "F.mish(F.mish(self.linear(x)))", ((16, 64),), _LINEAR
    ),
    "linear_softmax_gelu": Task(
        "F.gelu(torch.softmax(self.linear(x), dim=1))", ((16, 64),), _LINEAR
    ),
    "linear_logsumexp": Task(
        "torch.logsumexp(F.gelu(self.linear(x)), dim=1, keepdim=True)", ((16, 64),),
        _LINEAR,
    ),
    "linear_max_mean": Task(
        "F.gelu(torch.max(self.linear(x), dim=1, keepdim=True)[0] * 2.0)", ((16, 64),),
        _LINEAR,
    ),
    "conv_relu_bias": Task(
        "torch.relu(self.conv(x)) + self.bias", _IMAGES,
        _CONV + ")\nself.bias = nn.Parameter(torch.randn(16, 1, 1))",
    ),
    "conv_pool_sigmoid_sum": Task(
        "torch.sum(torch.sigmoid(F.avg_pool2d(self.conv(x), 2)), dim=[1, 2, 3])", _IMAGES,
        _CONV + ")",
    ),
    "conv_min_tanh": Task(
        "torch.tanh(torch.tanh(torch.min(self.conv(x), dim=1, keepdim=True)[0]))", _IMAGES,
        _CONV + ")",
    ),
    "conv_subtract_hardswish": Task(
        "F.hardswish(F.max_pool2d(self.conv(x) - 0.5, 2))", _IMAGES, _CONV + ")"
    ),
    "attention": Task(
        "F.scaled_dot_product_attention(x, y, z)",
        ((2, 2, 16, 16), (2, 2, 16, 16), (2, 2, 16, 16)),
    ),
    "causal_attention": Task(
        "torch.matmul(torch.softmax(torch.matmul(x, y.transpose(-2, -1)) / 4.0"
        " + torch.triu(torch.full((16, 16), float('-inf')), diagonal=1), dim=-1), z)",
        ((2, 2, 16, 16), (2, 2, 16, 16), (2, 2, 16, 16)),
    ),
    "mlp": Task(
        "self.second(torch.relu(self.first(x)))", ((16, 64),),
        "self.first = nn.Linear(64, 48)\nself.second = nn.Linear(48, 10)",
    ),
}  # fmt: skip

_TEXT = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def forward(self, {names}):
        return {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def text_of(task: Task) -> str:
    """Return the file of a task."""
    return _TEXT.format(
        made=indent(task.made, " " * 8).rstrip(),
        names=", ".join("xyz"[: len(task.inputs)]),
        forward=task.forward,
        inputs=", ".join(f"torch.rand{shape}" for shape in task.inputs),
    )


def main(folder: str) -> None:
    """Write the tasks into a folder, which is made."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, task in TASKS.items():
        Path(folder, f"{name}.py").write_text(text_of(task), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
