"""RNN, GRU and LSTM: a few steps are unrolled, more run as a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from didyma.composites import composite
from didyma.composites.builder import Builder, Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.shaping import join
from didyma.onnx.rules.slicing import cut
from didyma.onnx.subgraphs import add_functions, build_function
from didyma.onnx.values import Operand
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, TensorType

Activation: TypeAlias = Callable[[Value], Value]

MAX_STEPS = 16  # that are unrolled


def _activation(c: Context, name: str, alpha: float | None, beta: float | None) -> Activation:
    def given(x: float | None, default: float) -> float:
        return default if x is None else x

    def run(v: Value) -> Value:
        match name.lower():
            case "tanh":
                return c.emit("tanh", v)
            case "sigmoid":
                return composite.sigmoid(c, v)
            case "relu":
                return composite.relu(c, v)
            case "leakyrelu":
                return composite.leaky_relu(c, v, given(alpha, 0.01))
            case "thresholdedrelu":
                above = c.emit("greater", v, given(alpha, 1.0))
                return c.emit("where", above, v, c.scalar(0, v))
            case "scaledtanh":
                return c.emit("multiply", c.emit("tanh", c.emit("multiply", v, given(beta, 1.0))),
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
                return c.emit("add", c.emit("multiply", v, given(alpha, 1.0)), given(beta, 0.0))
            case _:
                raise c.broken(f"the activation {name}", "an activation of ONNX")

    return run


def _entry(c: Context, v: Value, axis: int, k: int) -> Value:
    """Return the element ``k`` of an axis, which is removed."""
    shape = (*v.type.shape[:axis], *v.type.shape[axis + 1 :])
    return c.reshape(cut(c, v, axis, k, k + 1), *shape)


# Names of the activations, their alphas and their betas.
ActivationNames: TypeAlias = tuple[
    tuple[str, ...], tuple[float | None, ...], tuple[float | None, ...]
]


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a layer: its weights, biases and activations."""

    c: Context
    hidden: int
    activations: tuple[Activation, ...]
    w: Value  # [inputs, gates * hidden]
    r: Value  # [hidden, gates * hidden]
    w_bias: Value | None
    r_bias: Value | None
    peepholes: Value | None
    names: ActivationNames

    def biased(self, v: Value, bias: Value | None) -> Value:
        """Return the gates with a bias added, if there is one."""
        return v if bias is None else self.c.emit("add", v, bias)

    def gate(self, v: Value, k: int) -> Value:
        """Return the columns of one gate."""
        axis = v.type.rank - 1
        return cut(self.c, v, axis, k * self.hidden, (k + 1) * self.hidden)

    def clipped(self, v: Value) -> Value:
        """Return the operand of an activation, clipped as the node says."""
        clip = self.c.real("clip")
        return self.c.emit("clip", v, -clip, clip) if clip > 0 else v

    def apply(self, k: int, v: Value) -> Value:
        """Return the k-th activation of a value."""
        return self.activations[k](self.clipped(v))

    def inside(self, c: Context, outer: Builder) -> Direction:
        """Return this direction as a function of a step sees it, which captures the weights."""

        def capture(v: Value | None) -> Value | None:
            return None if v is None else c.builder.capture(v, outer)

        r = c.builder.capture(self.r, outer)
        return replace(
            self, c=c, activations=_activations(c, self.names), r=r, w_bias=None,
            r_bias=capture(self.r_bias), peepholes=capture(self.peepholes),
        )  # fmt: skip


Step: TypeAlias = Callable[[Direction, Value, Sequence[Value]], list[Value]]


def _rnn_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h,) = d.c, states
    own = d.biased(c.emit("matmul", h, d.r), d.r_bias)
    return [d.apply(0, c.emit("add", x, own))]


def _gru_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h,) = d.c, states
    split = 2 * d.hidden
    r_gates, r_new = cut(c, d.r, 1, 0, split), cut(c, d.r, 1, split, 3 * d.hidden)
    both = c.emit("matmul", h, r_gates)
    new_bias = None
    if d.r_bias is not None:
        both = c.emit("add", both, cut(c, d.r_bias, 0, 0, split))
        new_bias = cut(c, d.r_bias, 0, split, 3 * d.hidden)
    z = d.apply(0, c.emit("add", d.gate(x, 0), d.gate(both, 0)))
    r = d.apply(0, c.emit("add", d.gate(x, 1), d.gate(both, 1)))
    if c.integer("linear_before_reset"):
        own = c.emit("multiply", r, d.biased(c.emit("matmul", h, r_new), new_bias))
    else:
        own = d.biased(c.emit("matmul", c.emit("multiply", r, h), r_new), new_bias)
    new = d.apply(1, c.emit("add", d.gate(x, 2), own))
    kept = c.emit("multiply", z, h)
    return [c.emit("add", c.emit("multiply", c.emit("subtract", c.scalar(1, z), z), new), kept)]


def _lstm_step(d: Direction, x: Value, states: Sequence[Value]) -> list[Value]:
    c, (h, cell) = d.c, states
    gates = c.emit("add", x, d.biased(c.emit("matmul", h, d.r), d.r_bias))
    i, o, f, new = (d.gate(gates, k) for k in range(4))

    def peep(v: Value, k: int, at: Value) -> Value:
        if d.peepholes is None:
            return v
        return c.emit("add", v, c.emit("multiply", d.gate(d.peepholes, k), at))

    i = d.apply(0, peep(i, 0, cell))
    if c.integer("input_forget"):
        f = c.emit("subtract", c.scalar(1, i), i)
    else:
        f = d.apply(0, peep(f, 2, cell))
    made = c.emit("multiply", i, d.apply(1, new))
    after = c.emit("add", c.emit("multiply", f, cell), made)
    o = d.apply(0, peep(o, 1, after))
    return [c.emit("multiply", o, d.activations[2](after)), after]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How RNN, GRU and LSTM differ: gates, step, default activations, number of states."""

    gates: int
    step: Step
    defaults: tuple[str, ...]
    states: int


RECURRENCES: dict[str, Recurrence] = {
    "RNN": Recurrence(1, _rnn_step, ("Tanh",), 1),
    "GRU": Recurrence(3, _gru_step, ("Sigmoid", "Tanh"), 1),
    "LSTM": Recurrence(4, _lstm_step, ("Sigmoid", "Tanh", "Tanh"), 2),
}


def _direction(c: Context, x: Inputs, kind: Recurrence, k: int, count: int) -> Direction:
    w, r = (_entry(c, c.operand(x, i), 0, k) for i in (1, 2))
    hidden = r.type.shape[-1]
    if not isinstance(hidden, int):
        raise c.error(f"{r.type}", "a constant hidden size")
    names = tuple(c.attrs.get("activations", ())) or kind.defaults * count
    alphas = tuple(c.attrs.get("activation_alpha", ()))
    betas = tuple(c.attrs.get("activation_beta", ()))
    each = len(kind.defaults)
    if len(names) != each * count:
        raise c.broken(f"activations {names}", f"{each * count} of them")
    mine = range(k * each, (k + 1) * each)
    chosen: ActivationNames = (
        tuple(_text(names[i]) for i in mine),
        tuple(alphas[i] if i < len(alphas) else None for i in mine),
        tuple(betas[i] if i < len(betas) else None for i in mine),
    )
    w_bias = r_bias = None
    if (bias := c.optional(x, 3)) is not None:
        own, width = _entry(c, bias, 0, k), kind.gates * hidden
        w_bias, r_bias = cut(c, own, 0, 0, width), cut(c, own, 0, width, 2 * width)
    peep = c.optional(x, 7) if kind.states == 2 else None
    w, r = (c.emit("permute_dims", m, axes=(1, 0)) for m in (w, r))
    peepholes = None if peep is None else _entry(c, peep, 0, k)
    activations = _activations(c, chosen)
    return Direction(c, hidden, activations, w, r, w_bias, r_bias, peepholes, chosen)


def _activations(c: Context, chosen: ActivationNames) -> tuple[Activation, ...]:
    return tuple(_activation(c, n, a, b) for n, a, b in zip(*chosen, strict=True))


def _text(x: bytes | str) -> str:
    return x.decode() if isinstance(x, bytes) else x


def _run(
    c: Context, d: Direction, kind: Recurrence, v: Value, first: list[Value], lengths: Value | None,
    backward: bool,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """Return the outputs of all steps, in the order of time, and the last states."""
    steps = v.type.shape[0]
    from_x = d.biased(c.emit("matmul", v, d.w), d.w_bias)
    if not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
        return _scan(c, d, kind, from_x, first, lengths, backward)
    states = first
    outs: list[Value] = []
    for t in reversed(range(steps)) if backward else range(steps):
        on = None if lengths is None else c.emit("greater", lengths, t)
        out, states = _step(d, kind, _entry(c, from_x, 0, t), states, on)
        outs.append(c.reshape(out, 1, *out.type.shape))
    return join(c, outs[::-1] if backward else outs, 0), states


def _step(
    d: Direction, kind: Recurrence, x: Value, states: Sequence[Value], on: Value | None
) -> tuple[Value, list[Value]]:
    """Return the output and the states after a step.

    A sequence that has ended keeps its states and yields zeros.
    """
    c = d.c
    new = kind.step(d, x, states)
    if on is None:
        return new[0], new
    kept = [c.emit("where", on, a, b) for a, b in zip(new, states, strict=True)]
    return c.emit("where", on, new[0], c.scalar(0, new[0])), kept


def _scan(
    c: Context, d: Direction, kind: Recurrence, from_x: Value, first: Sequence[Value],
    lengths: Value | None, backward: bool,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """Run the steps as a scan."""
    steps = from_x.type.shape[0]
    rows = [from_x, c.iota(steps)]
    if backward:
        rows = [c.emit("flip", r, axes=(0,)) for r in rows]

    def build(inner: Context) -> Sequence[Operand]:
        states = [inner.builder.param(f"state{k}", v.type) for k, v in enumerate(first)]
        x = inner.builder.param("x", from_x.type.with_shape(*from_x.type.shape[1:]))
        time = inner.builder.param("turn", TensorType(DType.I64))
        on = None
        if lengths is not None:
            on = inner.emit("greater", inner.builder.capture(lengths, c.builder), time)
        out, new = _step(d.inside(inner, c.builder), kind, x, states, on)
        return [*new, out]

    (f,), captures = add_functions(c, [("steps", build_function(c, build))])
    *last, outs = c.builder.scan(f, first, rows, captures, steps)
    return (c.emit("flip", outs, axes=(0,)) if backward else outs), last


def _layer(name: str) -> Handler:
    kind = RECURRENCES[name]

    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        by_batch = c.flag("layout")
        if by_batch:
            v = c.emit("permute_dims", v, axes=(1, 0, 2))
        steps, batch = v.type.shape[:2]
        direction = c.choice("direction", "forward", "reverse", "bidirectional")
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
        lengths = c.optional(x, 4)
        if lengths is not None:
            lengths = c.reshape(c.cast(lengths, DType.I64), batch, 1)
        outs: list[Value] = []
        lasts: list[list[Value]] = []
        for k, backward in enumerate(ways):
            d = _direction(c, x, kind, k, len(ways))
            first = [_initial(c, x, 5 + s, k, d.hidden, batch, v) for s in range(kind.states)]
            out, last = _run(c, d, kind, v, first, lengths, backward)
            outs.append(c.reshape(out, steps, 1, batch, d.hidden))
            lasts.append([c.reshape(s, 1, batch, d.hidden) for s in last])
        y = join(c, outs, 1)
        ends = [join(c, list(s), 0) for s in zip(*lasts, strict=True)]
        if by_batch:
            y = c.emit("permute_dims", y, axes=(2, 0, 1, 3))
            ends = [c.emit("permute_dims", e, axes=(1, 0, 2)) for e in ends]
        return [y, *ends]

    return run


def _initial(c: Context, x: Inputs, i: int, k: int, hidden: int, batch: Dim, like: Value) -> Value:
    given = c.optional(x, i)
    if given is None:
        return c.emit("broadcast_to", c.scalar(0, like), shape=(batch, hidden))
    return _entry(c, given, 1 if c.flag("layout") else 0, k)


HANDLERS: dict[str, Handler] = {name: _layer(name) for name in RECURRENCES}
