"""Synthetic traces of any length: what networks look like to a memory planner."""

from __future__ import annotations

from random import Random

import numpy as np

from didyma.codegen.memory.arena.problem import Problem, problem

BATCH, LENGTH, WIDTH, HEADS = 4, 512, 1024, 16
STEP = 12  # lines of a transformer layer


def _made(rows: list[tuple[int, int, int]], n: int) -> Problem:
    a = np.array(sorted(rows)[:n], np.int64)
    return problem(a[:, 0], a[:, 1], a[:, 2])


def cnn(n: int) -> Problem:
    """A chain of float32 images, some of them kept for a later layer."""
    r = Random(0)
    rows: list[tuple[int, int, int]] = []
    for t in range(n):
        channels = r.choice([16, 24, 32, 48, 64, 96, 128, 256])
        side = r.choice([7, 14, 28, 56, 112])
        extra = 0 if r.random() < 0.7 else int(r.expovariate(1 / 8))
        rows.append((t, t + 2 + extra, channels * side * side * 4))
    return _made(rows, n)


def _sizes(r: Random, widths: list[int]) -> tuple[int, int, int, int]:
    """Bytes of a layer's f16 activation, its inner one, its scores; and its width."""
    h = WIDTH * r.choice(widths)
    a = BATCH * LENGTH * h * 2
    return a, 4 * a, BATCH * HEADS * LENGTH * LENGTH * 2, h


def transformer(n: int) -> Problem:
    """Inference: some fifteen short-lived values a layer, of sizes that differ a little."""
    r = Random(0)
    rows: list[tuple[int, int, int]] = []
    t = 0
    while len(rows) < n:
        a, inner, scores, _ = _sizes(r, [1, 1, 1, 2])
        for low, high, size in (
            (0, 12, a), (0, 2, a), (1, 3, 3 * a), (2, 5, a), (2, 5, a), (2, 6, a), (4, 6, scores),
            (5, 7, scores), (6, 8, a), (7, 9, a), (8, 12, a), (9, 11, inner), (10, 12, inner),
            (11, 13, a), (12, 25, a),
        ):  # fmt: skip
            rows.append((t + low, t + high, size + 64 * r.randrange(8)))
        t += STEP
    return _made(rows, n)


def training(n: int) -> Problem:
    """Training: eight values a layer wait for its backward step; gradients stay to the end."""
    r = Random(0)
    layers = max(1, -(-n // 34))
    end = layers * STEP * 2 + 10
    rows: list[tuple[int, int, int]] = []
    for k in range(layers):
        a, inner, scores, h = _sizes(r, [1, 1, 2])
        t, back = k * STEP, end - (k + 1) * STEP
        for low, size in (
            (0, a), (1, 3 * a), (4, scores), (5, scores), (7, a), (9, inner), (10, inner), (11, a),
        ):  # fmt: skip
            rows.append((t + low, back + STEP - low, size + 64 * r.randrange(8)))
        for low, high in ((0, 2), (2, 5), (2, 5), (2, 6), (6, 8), (8, 10)):
            rows.append((t + low, t + high, a + 64 * r.randrange(8)))
        for low, high, size in (
            (0, 2, a), (1, 3, 3 * inner), (2, 4, inner), (3, 6, a), (4, 7, a), (5, 8, scores),
            (6, 9, scores), (7, 10, a), (7, 10, a), (8, 11, 3 * a), (10, 13, a), (0, 3, a),
            (3, 5, a), (9, 12, a),
        ):  # fmt: skip
            rows.append((back + low, back + high, size + 64 * r.randrange(8)))
        for low, size in (
            (2, h * 4 * h * 2), (4, h * 4 * h * 2), (7, h * h * 2), (10, 3 * h * h * 2),
            (11, h * 2), (3, h * 2),
        ):  # fmt: skip
            rows.append((back + low, end + 5, size))
    return _made(rows, n)


KINDS = {"cnn": cnn, "transformer": transformer, "training": training}
