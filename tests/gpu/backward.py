"""Time gradients of attention beside PyTorch's on a machine with a GPU: bf16, 4 by 16 heads.

    python3 -m tests.gpu.backward [--seconds 0.15] [--points] [--steps]

It prints a row for each case: milliseconds of Didyma and of PyTorch's fastest backend, their
quotient, and the largest error of each gradient of one head as a share of the largest element; and
with ``--points`` how long all points of ``tma_weighted`` take in the first two cases.  With
``--steps`` the rows are of an attention and its gradients, which are one program here.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import didyma as dd
from didyma.codegen.codegens import Asked, own
from didyma.codegen.pipeline import compile
from didyma.tracer.tracing import Program
from tests.gpu.attention import OPTIONS, Timed, backends, beside, timer


def program(n: int, width: int, *, causal: bool) -> Program:
    """Trace the gradients of an attention of 4 times 16 heads."""

    def gradients(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, lse: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return dd.scaled_dot_product_attention_backward(g, q, k, v, o, lse, causal)

    shape = dd.bf16[4, 16, n, width]
    return dd.trace(*[shape] * 5, dd.f32[4, 16, n])(gradients)


def step(n: int, width: int, *, causal: bool) -> Program:
    """Trace an attention of 4 times 16 heads, and its gradients."""

    def both(g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
        o, lse = dd.scaled_dot_product_attention(q, k, v, None, causal, return_lse=True)
        return o, *dd.scaled_dot_product_attention_backward(g, q, k, v, o, lse, causal)

    return dd.trace(*[dd.bf16[4, 16, n, width]] * 4)(both)


def logsumexp(torch: Any, q: Any, k: Any, *, causal: bool) -> Any:
    """Return the logarithms of sums of exponentials of scores, f32, a batch at a time."""
    out = list[Any]()
    for one, other in zip(q, k, strict=True):
        score = (one @ other.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
        if causal:
            hidden = torch.ones(score.shape[-2:], device=q.device, dtype=torch.bool).triu(1)
            score.masked_fill_(hidden, -math.inf)
        out.append(score.logsumexp(-1))
    return torch.stack(out)


def off(torch: Any, got: Any, given: tuple[Any, ...], *, causal: bool) -> list[float]:
    """Return the largest errors of the gradients of the last head, as shares of their largest."""
    g, *rest = (x[-1:, -1:].double() for x in given)
    q, k, v = (x.requires_grad_() for x in rest)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    with import_module("torch.nn.attention").sdpa_kernel(
        import_module("torch.nn.attention").SDPBackend.MATH
    ):
        want = torch.autograd.grad(sdpa(q, k, v, is_causal=causal), (q, k, v), g)
    pairs = zip(got, want, strict=True)
    return [float((x[-1:, -1:].double() - y).abs().max() / y.abs().max()) for x, y in pairs]


def case(
    torch: Any, timed: Timed, n: int, width: int, *, causal: bool, points: bool, steps: bool
) -> None:
    """Print the row of a case, and those of other points."""
    g, q, k, v = (
        torch.randn(4, 16, n, width, device="cuda", dtype=torch.bfloat16) for _ in range(4)
    )
    sdpa = torch.nn.functional.scaled_dot_product_attention
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    p = (step if steps else program)(n, width, causal=causal)
    run = dd.compile(p, options=OPTIONS, engine="cuda")
    values = [g, q, k, v]
    if not steps:
        values += [sdpa(q, k, v, is_causal=causal), logsumexp(torch, q, k, causal=causal)]
    worst = off(torch, [torch.as_tensor(x) for x in run(*values)[-3:]], (g, q, k, v),
                causal=causal)  # fmt: skip
    made: dict[str, Any] = {}

    def backward() -> object:
        backend = str(import_module("torch.nn.attention")._cur_sdpa_kernel_backends())
        if steps or backend not in made:
            made[backend] = sdpa(*given, is_causal=causal)
        return torch.autograd.grad(made[backend], given, g, retain_graph=not steps)

    mine, peer, name = beside(timed, lambda: run(*values), backends(backward))
    label = f"{'causal' if causal else 'full'} {n}x{width}"
    errors = " ".join(f"{x:.4f}" for x in worst)
    print(
        f"{label:<20}{mine:>10.4f}{peer:>10.4f}{peer / mine:>8.2f}  {name:<18}{errors}", flush=True
    )
    rows: Mapping[str, Any] = run.choices["choices"]
    print("   ", *(row["choice"] for row in rows.values()))
    for chosen in every_choice(p) if points else ():
        other = dd.compile(p, options=OPTIONS, choose=chosen, engine="cuda")
        taken, _, _ = beside(timed, partial(other, *values), {})
        print(f"    {taken:>10.4f}  {chosen}", flush=True)


def every_choice(p: Program) -> Iterator[Mapping[str, str]]:
    """Yield each point of ``tma_weighted`` for each kernel that it may write."""
    made = compile(p.module, OPTIONS, until="lower")
    template = own()["tma_weighted"]
    for name, loop in made.loops.items():
        asked = Asked(made.fused.function(name), loop, OPTIONS.device)
        yield from ({name: str(point)} for point in template.points(asked))


def main() -> int:
    """Time all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--steps", action="store_true")
    asked = parser.parse_args()
    torch: Any = import_module("torch")
    timed = timer(torch, asked.seconds)
    print(f"{'case':<20}{'didyma':>10}{'torch':>10}{'faster':>8}")
    sizes = ((4096, 128), (4096, 64), (1024, 128))
    for (n, width), causal in product(sizes, (True, False)):
        first = asked.points and (n, width) == (4096, 128)
        case(torch, timed, n, width, causal=causal, points=first, steps=asked.steps)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
