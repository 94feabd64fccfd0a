"""Draw attentions: dtypes, sizes, masks, score modifications, grouped heads, and what follows.

And gradients of attentions, of halves, of which a program returns one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import didyma as dd
from didyma.tracer.types import Element
from tests.codegen.templates.draw import HALVES, Drawn

LENGTHS = (1, 2, 7, 16, 17, 33, 40, 65)
WIDTHS = (1, 5, 8, 16, 33)
DTYPES = (dd.f32, dd.f32, dd.f16, dd.bf16, dd.f64)
LONG = (1, 5, 17, 64, 65, 130, 257)
FAMILIES = {  # of a template: the target, widths and lengths, and whether it is for halves alone
    "tiled_attention": ("portable", WIDTHS, LENGTHS, False),
    "mma_attention": ("sm_80", (16, 32, 40, 64, 96), LENGTHS, True),
    "wgmma_attention": ("sm_90a", (64, 128), LONG, True),
    "tma_attention": ("sm_90a", (64, 72, 80, 128, 160), LONG, True),
}
GRADIENTS = {  # of a template: the target, lengths and widths
    "mma_weighted": ("sm_80", LENGTHS, (16, 32, 40, 64, 96)),
    "tma_weighted": ("sm_90a", LONG, (64, 72, 80, 128)),
}
MASKS = ("", "causal", "window", "added", "bool", "alibi", "capped", "block")


def drawn(
    seed: int,
    dtype: Element | None = None,
    widths: tuple[int, ...] = WIDTHS,
    lengths: tuple[int, ...] = LENGTHS,
) -> Drawn:
    """Return what a seed draws: of the dtype given, of terms and features among the widths.

    With a dtype, for which targets have templates, some attentions return logarithms of sums.
    """
    r = Random(seed)
    element = dtype or r.choice(DTYPES)
    rows, columns = r.choice(lengths), r.choice(lengths)
    terms, features = r.choice(widths), r.choice(widths)
    mask, after = r.choice(MASKS), r.choice(("", "tanh", "residual", "cast"))
    batch: tuple[int, ...] = r.choice(((), (3,), (2, 4), (1, 6)))
    groups = r.choice((1, 2)) if len(batch) == 2 else 1
    open_rows, open_columns = r.random() < 0.4, r.random() < 0.4
    n = dd.dim("n", 1, rows + 2) if open_rows else rows
    m = dd.dim("m", 1, columns + 2) if open_columns else columns
    own = (batch[0], batch[1] // groups) if len(batch) == 2 else batch
    share, turned = r.random(), len(batch) == 2 and r.random() < 0.5
    logs = dtype is not None and r.random() < 0.4
    types = (
        element[(*batch, n, terms)], element[(*own, m, terms)], element[(*own, m, features)],
        (dd.bool_ if mask == "bool" else element)[n, m], element[(*batch, n, features)],
    )  # fmt: skip

    def f(
        q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, given: dd.Tensor, more: dd.Tensor
    ) -> dd.Tensor | tuple[dd.Tensor, dd.Tensor]:
        used = given if mask in ("added", "bool") else None
        by, change = groups > 1, MODIFICATIONS.get(mask)
        attend = partial(dd.scaled_dot_product_attention, enable_gqa=by, score_mod=change)
        if logs:
            out, log = attend(q, k, v, used, mask == "causal", return_lse=True)
            return followed(out, more), log
        return followed(attend(q, k, v, used, mask == "causal"), more)

    def followed(out: dd.Tensor, more: dd.Tensor) -> dd.Tensor:
        if after == "residual":
            out = out + more
        elif after:
            out = dd.astype(out, dd.f32) if after == "cast" else dd.tanh(out)
        return dd.permute(out, (0, 2, 1, 3)) if turned else out

    about = f"{element} {batch} {n} {m} {terms} {features} {mask} {groups} {after} {turned} {logs}"
    return Drawn(dd.trace(*types)(f), share, about)


def drawn_gradient(
    seed: int, lengths: tuple[int, ...] = LENGTHS, widths: tuple[int, ...] = (16, 32, 64)
) -> Drawn:
    """Return what a seed draws: a gradient of an attention, or those of keys and values."""
    r = Random(seed)
    element, which = r.choice(HALVES), r.choice(("q", "k", "v", "kv"))
    n, m, d, e = (r.choice(x) for x in (lengths, lengths, widths, widths))
    heads, shared = r.choice((1, 2)), r.choice((1, 2))
    causal, window = r.random() < 0.5, r.choice((None, None, 3, 20))
    rows = dd.dim("n", 1, n + 2) if r.random() < 0.4 else n
    outer, inner = (2, heads * shared), (2, heads)

    @dd.trace(
        element[(*outer, rows, e)], element[(*outer, rows, d)], element[(*inner, m, d)],
        element[(*inner, m, e)], element[(*outer, rows, e)], dd.f32[(*outer, rows)],
    )  # fmt: skip
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        made = dd.scaled_dot_product_attention_backward(
            g, q, k, v, o, logs, causal, enable_gqa=shared > 1, window=window
        )
        return tuple(getattr(made, x) for x in which)

    about = f"{element} {outer} {inner} {rows} {m} {d} {e} {which} {causal} {window}"
    return Drawn(f, r.random(), about)


def _window(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return dd.where(dd.logical_and(i - j < 5, j - i < 3), score, -float("inf"))


def _alibi(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return score + dd.astype(j - i, _element(score)) * 0.25


def _capped(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return dd.tanh(score * 0.5) * 2.0


def _block(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return dd.where(dd.equal(i // 8, j // 8), score, -1.0)


def _element(x: dd.Tensor) -> Element:
    return next(e for e in DTYPES if e.dtype is x.dtype)


MODIFICATIONS: dict[str, Callable[..., dd.Tensor]] = {
    "window": _window, "alibi": _alibi, "capped": _capped, "block": _block,
}  # fmt: skip
