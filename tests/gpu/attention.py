"""Time attention beside PyTorch's on a machine with a GPU: bf16, a batch of 4, 16 heads.

    python3 -m tests.gpu.attention [--seconds 0.15] [--problems 60] [--points] [--flex] [--varlen]
        [--f32]

Drawn attentions are judged first, by points of the templates for tensor cores.  Then it prints a
row for each case: milliseconds of Didyma and of PyTorch's fastest backend, their quotient, and the
largest error of some rows as a share of its bound; and with ``--points`` how long other points
take.  With ``--flex`` scores are modified, beside flex attention.  With ``--varlen`` it prints
rows for sequences that lie one behind the other alone, beside as many in a batch, by Didyma; and
with ``--f32`` rows for attention of f32 alone.
"""

from __future__ import annotations

import argparse
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib import import_module
from itertools import pairwise, product
from multiprocessing import get_context
from statistics import median
from typing import Any

import didyma as dd
from didyma.codegen.codegens import own
from didyma.codegen.runtime.cuda import Cuda
from didyma.tracer.tracing import Program
from didyma.tracer.types import Element
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.judging import judged, points, request

LENGTHS = (1024, 4096, 16384)
DRAWN = (1, 5, 17, 64, 65, 130, 257, 400)
OPTIONS = dd.Options(target="sm_90a")
TEMPLATES = ("tma_attention", "wgmma_attention", "mma_attention")
Burst = Callable[[int], None]  # calls so many times
Timed = Callable[[Mapping[str, Burst]], dict[str, float]]


def program(
    width: int, *, causal: bool, groups: int = 1, window: int = 0, dtype: Element = dd.bf16
) -> Program:
    """Trace an attention of any length; a window is of keys before a query."""
    n = dd.dim("n", 128, 1 << 14)

    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < window, score, -float("inf"))

    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(
            q, k, v, None, causal, enable_gqa=groups > 1, score_mod=near if window else None
        )

    keys = dtype[4, 16 // groups, n, width]
    return dd.trace(dtype[4, 16, n, width], keys, keys)(attention)


def six(score: Any, *places: Any) -> Any:
    """Modify scores by six operations, of Didyma's tensors or of PyTorch's."""
    away = places[-1] - places[-2]
    far = dd.astype(away, dd.f32) if isinstance(away, dd.Tensor) else away
    return (score + far * 0.01) * 0.5 + score * score * 0.25


def divided(score: Any, *places: Any) -> Any:
    """Modify scores by six operations, of which one is a quotient."""
    away = places[-1] - places[-2]
    far = dd.astype(away, dd.f32) if isinstance(away, dd.Tensor) else away
    return (score + far / 100.0) * 0.5 + score * score * 0.25


def alibi(score: Any, *places: Any) -> Any:
    """Add the distance of a key, times a slope of each of 16 heads that is a power of two."""
    head, i, j = places[-3:]
    if isinstance(score, dd.Tensor):
        slope = dd.exp2(dd.astype(head + 1, dd.f32) * -0.5)
        return score + dd.astype(j - i, dd.f32) * slope
    return score + (j - i) * 2.0 ** (-0.5 * (head + 1))


def capped(score: Any, *places: Any) -> Any:
    """Keep scores between -30 and 30."""
    del places
    return (dd.tanh(score / 30) if isinstance(score, dd.Tensor) else (score / 30).tanh()) * 30


def modified(how: Callable[..., Any]) -> Program:
    """Trace a causal attention with modified scores."""

    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, None, is_causal=True, score_mod=how)

    n = dd.dim("n", 128, 1 << 14)
    return dd.trace(*(dd.bf16[4, 16, n, 128] for _ in range(3)))(attention)


def error(torch: Any, got: Any, given: tuple[Any, Any, Any], seen: Any, how: Any = None) -> float:
    """Return the largest error of some rows, as a share of its bound.

    ``seen`` tells of rows and columns which are seen.  A weight is rounded to bf16, and so is the
    result; of what f32 does, as much again is allowed as of the latter.  Those of f32 may be off as
    if they were rounded to 18 bits.
    """
    worst, unit = 0.0, max(torch.finfo(got.dtype).eps / 2, 2.0**-18)
    for b, h in ((0, 0), (got.shape[0] - 1, got.shape[1] - 1)):
        q, k, v = given
        g = h * k.shape[1] // q.shape[1]
        rows = torch.linspace(0, q.shape[2] - 1, min(64, q.shape[2]), device=q.device).long()
        score = q[b, h, rows].double() @ k[b, g].double().T / math.sqrt(q.shape[3])
        at = (rows[:, None], torch.arange(k.shape[2], device=q.device)[None])
        score = score if how is None else how(score, b, h, *at)
        score = score.masked_fill(~seen(*at).expand_as(score), -math.inf)
        weights, values = score.softmax(-1), v[b, g].double()
        want = weights @ values
        bound = unit * (weights @ values.abs()) + unit * want.abs()
        worst = max(
            worst, float(((got[b, h, rows].double() - want).abs() / bound).nan_to_num(9).max())
        )
    return worst


def decoding(width: int) -> Program:
    """Trace the attention of one query in each of 64 batches."""
    n = dd.dim("n", 128, 8192)
    keys = dd.bf16[64, 16, n, width]
    return dd.trace(dd.bf16[64, 16, 1, width], keys, keys)(dd.scaled_dot_product_attention)


@cache
def checked() -> Cuda:
    """Return the engine of a process that judges."""
    return Cuda()


def judge(seed: int) -> list[str]:
    """Judge what a seed draws; return a line for each template, which ends with what was wrong."""
    d = drawn(seed, (dd.f16, dd.bf16)[seed % 2], (64, 128), DRAWN)
    out = list[str]()
    for name in TEMPLATES:
        template = own()[name]
        try:
            every = points(request(d.program, OPTIONS, template.space), template)
        except AssertionError:  # it does not suit
            continue
        point = every[int(d.share * len(every))]
        said = judged(d.program, point, options=OPTIONS, suits=template.space, engines=(checked(),))
        out.append(f"{seed} {d.about} {point}: {'; '.join(said - {''})}")
    return out


def wrong_ones(count: int) -> Iterator[str]:
    """Yield what was wrong of drawn problems, and say how many were judged."""
    done = 0
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:
        for lines in pool.map(judge, range(count)):
            done += len(lines)
            yield from (x for x in lines if not x.endswith(": "))
    print(f"judged on cuda: {done} kernels of drawn attentions", flush=True)


def offered(p: Program) -> list[str]:
    """Return points of the templates of tensor cores, each one's best first by its model."""
    out = list[str]()
    for name, count in (("tma_attention", 4),):
        r = request(p, OPTIONS, own()[name].space)
        out += [f"{r.name}: {point}" for point in points(r, own()[name])[:count]]
    return out


def timer(torch: Any, seconds: float) -> Timed:
    """Return what times calls that take turns: medians, in milliseconds.

    All of them run for so many seconds first.  What runs first behind a pause would be up to a
    tenth faster, as the clock falls with the power that is drawn.
    """

    def elapsed(run: Burst, times: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run(times)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / times

    def timed(calls: Mapping[str, Burst]) -> dict[str, float]:
        share = seconds * 1000 / len(calls)
        once = {name: min(elapsed(run, 1) for _ in range(3)) for name, run in calls.items()}
        for name, run in calls.items():
            elapsed(run, max(1, int(share / once[name])))
        times = {name: max(1, int(share / TURNS / t)) for name, t in once.items()}
        turns = [{n: elapsed(f, times[n]) for n, f in calls.items()} for _ in range(TURNS)]
        return {name: median(turn[name] for turn in turns) for name in calls}

    return timed


TURNS = 9


def burst(call: Callable[[], object]) -> Burst:
    """Return what calls so many times."""

    def run(times: int) -> None:
        for _ in range(times):
            call()

    return run


def backends(call: Callable[[], object]) -> dict[str, Burst]:
    """Return a call by each of PyTorch's backends that have a kernel for it."""
    attention: Any = import_module("torch.nn.attention")
    found = dict[str, Burst]()
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
        backend = getattr(attention.SDPBackend, name)

        def run(times: int, backend: Any = backend) -> None:
            with attention.sdpa_kernel(backend):
                burst(call)(times)

        try:
            run(1)
        except RuntimeError as e:  # it has no kernel for the case
            print(f"{name}: {e}")
        else:
            found[name] = run
    return found


def beside(
    timed: Timed, call: Callable[[], object], peers: Mapping[str, Burst]
) -> tuple[float, float, str]:
    """Return the times of a call and of the fastest of its peers, and that one's name."""
    times = timed({"": burst(call), **peers})
    mine = times.pop("")
    peer = min(times, key=lambda name: times[name], default="")
    return mine, times.get(peer, math.nan), peer


def flexible(torch: Any, mod: Callable[..., Any], *given: Any) -> Callable[[], object]:
    """Return a call of compiled flex attention, causal and with modified scores."""
    flex: Any = import_module("torch.nn.attention.flex_attention")
    n = given[0].shape[2]

    def seen(b: Any, h: Any, i: Any, j: Any) -> Any:
        del b, h
        return i >= j

    mask = flex.create_block_mask(seen, None, None, n, n)
    attention = torch.compile(flex.flex_attention, mode="max-autotune-no-cudagraphs")
    return lambda: attention(*given, score_mod=mod, block_mask=mask)


def ragged(lengths: Sequence[int]) -> Program:
    """Trace causal attention of 16 heads of 128 features, of sequences one behind the other."""

    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
        return dd.varlen_attention(q, k, v, at, is_causal=True, checked=False)

    types = [dd.bf16[sum(lengths), 16, 128]] * 3
    return dd.trace(*types, dd.i32[len(lengths) + 1])(attention)


def batch(count: int, length: int) -> Program:
    """Trace causal attention of 16 heads of 128 features, of a batch."""

    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    return dd.trace(*[dd.bf16[count, 16, length, 128]] * 3)(attention)


def one_behind_the_other(torch: Any, timed: Timed, lengths: Sequence[int]) -> None:
    """Print a row for 16 heads of causal sequences, beside a batch of equal ones if these are."""
    total, width = sum(lengths), 128
    run = dd.compile(ragged(lengths), options=OPTIONS, engine="cuda")
    q, k, v = (torch.randn(total, 16, width, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    at = torch.tensor(ends, device="cuda", dtype=torch.int32)
    result, worst = torch.as_tensor(run(q, k, v, at)), 0.0
    for a, b in pairwise(ends):
        if a == b:
            continue
        own = tuple(x[a:b].transpose(0, 1)[None] for x in (q, k, v))
        got = result[a:b].transpose(0, 1)[None]
        worst = max(worst, error(torch, got, own, operator.ge))
    size = (len(lengths), lengths[0], 16, width)
    plain = dd.compile(batch(*size[:2]), options=OPTIONS, engine="cuda")
    given = [x[: size[0] * size[1]].reshape(size).transpose(1, 2).contiguous() for x in (q, k, v)]
    peers = {"a batch": burst(lambda: plain(*given))} if len(set(lengths)) == 1 else {}
    mine, peer, _ = beside(timed, lambda: run(q, k, v, at), peers)
    label = f"{len(lengths)} sequences, {total} in all"
    print(f"{label:<32}{mine:>10.4f}{peer:>10.4f}{peer / mine:>8.2f}  {'a batch':<18}{worst:>6.2f}")


def main() -> int:
    """Time all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--problems", type=int, default=0)
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--flex", action="store_true")
    parser.add_argument("--varlen", action="store_true")
    parser.add_argument("--f32", action="store_true")
    asked = parser.parse_args()
    wrong = list(wrong_ones(asked.problems)) if asked.problems else []
    print(*wrong, sep="\n", flush=True)
    torch: Any = import_module("torch")
    timed = timer(torch, asked.seconds)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def case(label: str, p: Program, rows: int, keys: tuple[int, ...], **how: Any) -> None:
        run = dd.compile(p, options=OPTIONS, engine="cuda")
        shapes = ((*keys[:1], 16, rows, keys[-1]), keys, keys)
        dtype = how.pop("dtype", torch.bfloat16)
        q, k, v = (torch.randn(*s, device="cuda", dtype=dtype) for s in shapes)
        window, mod = how.pop("window", 0), how.pop("mod", None)
        causal = bool(how.get("is_causal", window))
        kind = "with a mask" if window else "flex attention"
        if window:
            at = torch.arange(rows, device="cuda")
            far = at[:, None] - at[None]
            how = {"attn_mask": (far >= 0) & (far < window)}

        def seen(i: Any, j: Any) -> Any:
            return (i >= j) & (i - j < (window or rows)) if causal else i + j >= 0

        def off(result: Any) -> float:
            return error(torch, torch.as_tensor(result), (q, k, v), seen, mod)

        worst = off(run(q, k, v))
        if mod is not None:
            peers = {kind: burst(flexible(torch, mod, q, k, v))}
        elif window:
            peers = {kind: burst(lambda: sdpa(q, k, v, **how))}
        else:
            peers = backends(lambda: sdpa(q, k, v, **how))
        mine, peer, name = beside(timed, lambda: run(q, k, v), peers)
        print(
            f"{label:<32}{mine:>10.4f}{peer:>10.4f}{peer / mine:>8.2f}  {name:<18}{worst:>6.2f}",
            flush=True,
        )
        for point in offered(p) if asked.points and rows == 4096 else ():
            how_made = OPTIONS.changed({"kernels.choices": point})
            other = dd.compile(p, options=how_made, engine="cuda")
            taken, _, _ = beside(timed, partial(other, q, k, v), {})
            print(f"    {taken:>10.4f}{off(other(q, k, v)):>6.2f}  {point}", flush=True)

    print(f"{'case':<32}{'didyma':>10}{'torch':>10}{'faster':>8}")
    if asked.varlen:
        for lengths in ([2048] * 8, [4096] * 4, [512] * 32, [100, 5000, 0, 3000, 7, 8277]):
            one_behind_the_other(torch, timed, lengths)
        return int(bool(wrong))
    for width, causal in product((64, 128), (True, False)) if asked.f32 else ():
        label = f"f32 {'causal' if causal else 'full'} 4096x{width}"
        p = program(width, causal=causal, dtype=dd.f32)
        how = {"is_causal": causal, "dtype": torch.float32}
        case(label, p, 4096, (4, 16, 4096, width), **how)
    if asked.f32:
        return int(bool(wrong))
    for width in (64, 128):
        for causal in (True, False):
            for n in LENGTHS:
                label = f"{'causal' if causal else 'full'} {n}x{width}"
                p = program(width, causal=causal)
                case(label, p, n, (4, 16, n, width), is_causal=causal)
    grouped = program(128, causal=True, groups=4)
    case("causal 4096x128, 4 heads share", grouped, 4096, (4, 4, 4096, 128),
         is_causal=True, enable_gqa=True)  # fmt: skip
    near = program(128, causal=True, window=256)
    case("causal 4096x128, window of 256", near, 4096, (4, 16, 4096, 128), window=256)
    case("one query, 64 batches, 8192x128", decoding(128), 1, (64, 16, 8192, 128))
    for mod in (six, divided, alibi, capped) if asked.flex else ():
        label = f"causal 4096x128, {mod.__name__}"
        case(label, modified(mod), 4096, (4, 16, 4096, 128), is_causal=True, mod=mod)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
