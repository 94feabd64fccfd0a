"""RNN, GRU and LSTM over sequences of a known length: one step after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from refimpl.ir.dims import Dim
from refimpl.ir.types import DType
from refimpl.onnx.context import Context
from refimpl.onnx.movement import join
from refimpl.onnx.values import Item
from refimpl.ops import composite
from refimpl.ops.builder import Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item] | None]
Activation: TypeAlias = Callable[[Value], Value]

MAX_STEPS = 1 << 10  # steps that are written out


def _activation(c: Context, name: str, alpha: float | None, beta: float | None) -> Activation:
    def given(x: float | None, default: float) -> float:
        return default if x is None else x

    def run(v: Value) -> Value:
        match name.lower():
            case "tanh":
                return c.do("tanh", v)
            case "sigmoid":
                return composite.sigmoid(c, v)
            case "relu":
                return composite.relu(c, v)
            case "leakyrelu":
                return composite.leaky_relu(c, v, given(alpha, 0.01))
            case "thresholdedrelu":
                above = c.do("greater", v, given(alpha, 1.0))
                return c.do("where", above, v, c.scalar(0, v))
            case "scaledtanh":
                return c.do("multiply", c.do("tanh", c.do("multiply", v, given(beta, 1.0))),
                            given(alpha, 1.0))  # fmt: skip
            case "hardsigmoid":
                return composite.hard_sigmoid(c, v, given(alpha, 0.2), given(beta, 0.5))
            case "elu":
                return composite.elu(c, v, given(alpha, 1.0))
            case "softsign":
                return composite.softsign(c, v)
            case "softplus":
                return composite.softplus(c, v)
            case "affine":
                return c.do("add", c.do("multiply", v, given(alpha, 1.0)), given(beta, 0.0))
            case _:
                raise c.wrong(f"the activation {name}", "an activation of ONNX")

    return run


def _cut(c: Context, v: Value, axis: int, start: int, stop: int) -> Value:
    rank = v.type.rank
    starts = tuple(start if i == axis else 0 for i in range(rank))
    stops = tuple(stop if i == axis else d for i, d in enumerate(v.type.shape))
    return c.emit("slice", v, starts=starts, stops=stops, steps=(1,) * rank)


def _entry(c: Context, v: Value, axis: int, k: int) -> Value:
    """One entry of an axis, which goes."""
    shape = (*v.type.shape[:axis], *v.type.shape[axis + 1 :])
    return c.reshape(_cut(c, v, axis, k, k + 1), *shape)


@dataclass(frozen=True, slots=True)
class Direction:
    """Weights of one direction, and what is the same at each step."""

    c: Context
    hidden: int
    activations: tuple[Activation, ...]
    w: Value  # [inputs, gates * hidden]
    r: Value  # [hidden, gates * hidden]
    w_bias: Value | None
    r_bias: Value | None
    peepholes: Value | None

    def gates(self, v: Value, bias: Value | None) -> Value:
        """Add a bias."""
        return v if bias is None else self.c.do("add", v, bias)

    def gate(self, v: Value, k: int) -> Value:
        """Columns of one gate."""
        axis = v.type.rank - 1
        return _cut(self.c, v, axis, k * self.hidden, (k + 1) * self.hidden)

    def clipped(self, v: Value) -> Value:
        """Clip what goes into an activation."""
        clip = self.c.real("clip")
        return self.c.do("clip", v, -clip, clip) if clip > 0 else v

    def apply(self, k: int, v: Value) -> Value:
        """Apply the k-th activation."""
        return self.activations[k](self.clipped(v))


Step: TypeAlias = Callable[[Direction, Value, Sequence[Value]], list[Value]]


def _rnn_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h,) = d.c, states
    own = d.gates(c.emit("matmul", h, d.r), d.r_bias)
    return [d.apply(0, c.do("add", x, own))]


def _gru_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h,) = d.c, states
    split = 2 * d.hidden
    r_gates, r_new = _cut(c, d.r, 1, 0, split), _cut(c, d.r, 1, split, 3 * d.hidden)
    both = c.emit("matmul", h, r_gates)
    new_bias = None
    if d.r_bias is not None:
        both = c.do("add", both, _cut(c, d.r_bias, 0, 0, split))
        new_bias = _cut(c, d.r_bias, 0, split, 3 * d.hidden)
    z = d.apply(0, c.do("add", d.gate(x, 0), d.gate(both, 0)))
    r = d.apply(0, c.do("add", d.gate(x, 1), d.gate(both, 1)))
    if c.integer("linear_before_reset"):
        own = c.do("multiply", r, d.gates(c.emit("matmul", h, r_new), new_bias))
    else:
        own = d.gates(c.emit("matmul", c.do("multiply", r, h), r_new), new_bias)
    new = d.apply(1, c.do("add", d.gate(x, 2), own))
    kept = c.do("multiply", z, h)
    return [c.do("add", c.do("multiply", c.do("subtract", c.scalar(1, z), z), new), kept)]


def _lstm_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h, cell) = d.c, states
    whole = c.do("add", x, d.gates(c.emit("matmul", h, d.r), d.r_bias))
    i, o, f, new = (d.gate(whole, k) for k in range(4))

    def peep(v: Value, k: int, at: Value) -> Value:
        if d.peepholes is None:
            return v
        return c.do("add", v, c.do("multiply", d.gate(d.peepholes, k), at))

    i = d.apply(0, peep(i, 0, cell))
    if c.integer("input_forget"):
        f = c.do("subtract", c.scalar(1, i), i)
    else:
        f = d.apply(0, peep(f, 2, cell))
    made = c.do("multiply", i, d.apply(1, new))
    after = c.do("add", c.do("multiply", f, cell), made)
    o = d.apply(0, peep(o, 1, after))
    return [c.do("multiply", o, d.activations[2](after)), after]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of recurrent layer."""

    gates: int
    step: Step
    defaults: tuple[str, ...]
    states: int


KINDS: dict[str, Kind] = {
    "RNN": Kind(1, _rnn_step, ("Tanh",), 1),
    "GRU": Kind(3, _gru_step, ("Sigmoid", "Tanh"), 1),
    "LSTM": Kind(4, _lstm_step, ("Sigmoid", "Tanh", "Tanh"), 2),
}


def _direction(c: Context, x: Inputs, kind: Kind, k: int, count: int) -> Direction:
    w, r = (_entry(c, c.operand(x, i), 0, k) for i in (1, 2))
    hidden = r.type.shape[-1]
    if not isinstance(hidden, int):
        raise c.bad(f"{r.type}", "a hidden size known at import")
    names = tuple(c.attrs.get("activations", ())) or kind.defaults * count
    alphas = tuple(c.attrs.get("activation_alpha", ()))
    betas = tuple(c.attrs.get("activation_beta", ()))
    each = len(kind.defaults)
    if len(names) != each * count:
        raise c.wrong(f"activations {names}", f"{each * count} of them")
    found = tuple(
        _activation(
            c, _word(names[i]), alphas[i] if i < len(alphas) else None,
            betas[i] if i < len(betas) else None,
        )
        for i in range(k * each, (k + 1) * each)
    )  # fmt: skip
    w_bias = r_bias = None
    if (bias := c.optional(x, 3)) is not None:
        own, width = _entry(c, bias, 0, k), kind.gates * hidden
        w_bias, r_bias = _cut(c, own, 0, 0, width), _cut(c, own, 0, width, 2 * width)
    peep = c.optional(x, 7) if kind.states == 2 else None
    w, r = (c.emit("permute_dims", m, axes=(1, 0)) for m in (w, r))
    holes = None if peep is None else _entry(c, peep, 0, k)
    return Direction(c, hidden, found, w, r, w_bias, r_bias, holes)


def _word(x: bytes | str) -> str:
    return x.decode() if isinstance(x, bytes) else x


def _run(
    c: Context, d: Direction, kind: Kind, v: Value, first: list[Value], lengths: Value | None,
    backward: bool,
) -> tuple[list[Value], list[Value]]:  # fmt: skip
    """Outputs of every step, in the order of time, and the last states."""
    steps = v.type.shape[0]
    assert isinstance(steps, int)
    from_x = d.gates(c.emit("matmul", v, d.w), d.w_bias)
    states = first
    outs: list[Value] = []
    for t in reversed(range(steps)) if backward else range(steps):
        new = kind.step(d, _entry(c, from_x, 0, t), states)
        out = new[0]
        if lengths is not None:  # a sequence that is over keeps its state and yields zeros
            on = c.do("greater", lengths, t)
            new = [c.do("where", on, a, b) for a, b in zip(new, states, strict=True)]
            out = c.do("where", on, out, c.scalar(0, out))
        states = new
        outs.append(out)
    return (outs[::-1] if backward else outs), states


def _layer(name: str) -> Handler:
    kind = KINDS[name]

    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = c.operand(x, 0)
        by_batch = c.flag("layout")
        if by_batch:
            v = c.emit("permute_dims", v, axes=(1, 0, 2))
        steps, batch = v.type.shape[:2]
        if not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
            raise c.bad(f"{steps} steps", f"a number of steps known at import, up to {MAX_STEPS}")
        word = c.choice("direction", "forward", "reverse", "bidirectional")
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[word]
        lengths = c.optional(x, 4)
        if lengths is not None:
            lengths = c.reshape(c.cast(lengths, DType.I64), batch, 1)
        outs: list[list[Value]] = []
        lasts: list[list[Value]] = []
        for k, backward in enumerate(ways):
            d = _direction(c, x, kind, k, len(ways))
            first = [_initial(c, x, 5 + s, k, d.hidden, batch, v) for s in range(kind.states)]
            y, last = _run(c, d, kind, v, first, lengths, backward)
            outs.append([c.reshape(o, 1, 1, batch, d.hidden) for o in y])
            lasts.append([c.reshape(s, 1, batch, d.hidden) for s in last])
        whole = join(c, [join(c, list(o), 1) for o in zip(*outs, strict=True)], 0)
        ends = [join(c, list(s), 0) for s in zip(*lasts, strict=True)]
        if by_batch:
            whole = c.emit("permute_dims", whole, axes=(2, 0, 1, 3))
            ends = [c.emit("permute_dims", e, axes=(1, 0, 2)) for e in ends]
        return [whole, *ends]

    return run


def _initial(c: Context, x: Inputs, i: int, k: int, hidden: int, batch: Dim, like: Value) -> Value:
    given = c.optional(x, i)
    if given is None:
        return c.emit("broadcast_to", c.scalar(0, like), shape=(batch, hidden))
    return _entry(c, given, 1 if c.flag("layout") else 0, k)


HANDLERS: dict[str, Handler] = {name: _layer(name) for name in KINDS}
