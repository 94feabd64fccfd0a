"""Which argument of a kernel is which part of its specification: as given, by name, by order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from didyma.judging.expressions import split
from didyma.judging.heads import Parameter
from didyma.judging.task import Kept, Operand, Result, Role, Scalar, Scratch
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType

_ARRAY = re.compile(r"(scratch|zero):(\w+)\[(.*)\]$")
_MEMORY = re.compile(r"(zero:)?(\w+)\[(.*)\]$")
_TYPED = re.compile(r"(\w+):(.+)$")
_NUMBER = 8  # bytes of a number at most
_WANT = (
    "NAME=INPUT, NAME=OUTPUT, NAME=out, NAME=null, NAME=zero, NAME=zero:OUTPUT, "
    "NAME=inplace:INPUT, NAME=SIZES, NAME=i32:SIZES, NAME=f32:0.5, NAME=scratch:f32[SIZES] or "
    "NAME=map(ARRAY, box=8x32)"
)


def bind(
    params: Sequence[Sequence[Parameter]],
    spec: Module,
    given: Sequence[Sequence[str]],
    memory: Mapping[str, Scratch],
) -> list[tuple[Role, ...]]:
    """Return, for each launch, the role of each parameter of its kernel.

    ``given`` are items ``NAME=WHAT``, or ``WHAT`` for the next parameter in order.  Others are
    found by name, without regard to case, a prefix ``d_`` or a suffix ``_ptr``.  Then, of a single
    launch, pointers that are ``const`` are the inputs that are left, in order, other pointers the
    outputs, and integers the sizes.  ``memory`` is what launches share.
    DidymaError ``spec-mismatch`` where they do not fit, ``bad-option``.
    """
    found = [_Binding(p, spec, memory) for p in params]
    if twice := sorted(memory.keys() & {*found[0].inputs, *found[0].outputs}):
        raise DidymaError(
            "bad-option", f"memory {twice[0]}", got=twice[0],
            want="a name that no input and no output has",
        )  # fmt: skip
    for b, items in zip(found, given, strict=True):
        b.as_given(items)
        b.by_name()
        if len(found) == 1:
            b.by_order()
    roles = [b.finished() for b in found]
    used = {n for row in roles for r in row for n in _names(r)}
    missing = [n for n in (*found[0].inputs, *found[0].outputs) if n not in used]
    if missing:
        taken = [
            f"{p.name} is taken for {n}" for b, row in zip(found, roles, strict=True)
            for p, r in zip(b.params, row, strict=True) for n in _names(r) if n != p.name
        ]  # fmt: skip
        raise found[-1].mismatch(
            "; ".join([f"no parameter for {', '.join(missing)}", *taken]),
            "a parameter for each input and output",
        )
    return roles


def kept_of(items: Sequence[str]) -> dict[str, Scratch]:
    """Return the memory of items such as ``part=f32[n,4]`` and ``n=zero:i32[1]``, by its names.

    DidymaError ``bad-option``, ``unknown-dtype``.

    >>> kept_of(["part=f32[n,4]"])["part"].shape
    ('n', '4')
    """
    found: dict[str, Scratch] = {}
    for item in items:
        name, _, what = item.partition("=")
        m = _MEMORY.match(what.strip())
        if not name or m is None:
            want = "NAME=f32[SIZES] or NAME=zero:f32[SIZES]"
            raise DidymaError("bad-option", f"memory {item}", got=item, want=want)
        found[name] = Scratch(_dtype(m[2], item), tuple(split(m[3])), bool(m[1]))
    return found


class _Binding:
    """Roles while they are found."""

    def __init__(
        self, params: Sequence[Parameter], spec: Module, memory: Mapping[str, Scratch]
    ) -> None:
        self.params, self.spec, self.memory = params, spec, memory
        entry = spec.entry
        self.inputs = {p.name: p.type for p in entry.params}
        self.outputs = dict(zip(entry.results, entry.result_types(), strict=True))
        self.sizes = [v.name for v in spec.dims]
        self.roles: list[Role | None] = [None] * len(params)

    def left(self, names: Sequence[str]) -> list[str]:
        """Return names of inputs or outputs that no parameter has yet."""
        used = {n for r in self.roles for n in _names(r)}
        return [n for n in names if n not in used]

    def as_given(self, items: Sequence[str]) -> None:
        """Take the roles that the user names."""
        names = [p.name for p in self.params]
        for k, item in enumerate(items):
            name, equals, what = item.partition("=")
            if not equals:
                name, what = (names[k] if k < len(names) else ""), item
            if name not in names or self.roles[names.index(name)] is not None:
                raise DidymaError(
                    "spec-mismatch", f"--arg {item}", got=name or f"argument {k + 1}",
                    want=f"each parameter of the kernel once: {', '.join(names)}",
                )  # fmt: skip
            at = names.index(name)
            self.roles[at] = self._role(what.strip(), self.params[at], item)

    def _role(self, what: str, p: Parameter, item: str) -> Role:
        if m := _ARRAY.match(what):
            return Scratch(_dtype(m[2], item), tuple(split(m[3])), m[1] == "zero")
        kind, _, rest = what.partition(":")
        if kind == "zero" and (rest in self.outputs or not rest):
            left = self.left(list(self.outputs))
            if not rest and not left:
                raise DidymaError("spec-mismatch", f"--arg {item}", got=what, want="an output")
            return Result(rest or left[0], zeroed=True)
        if kind == "inplace":
            over, _, out = rest.partition(":")
            out = out or next(iter(self.left(list(self.outputs))), "")
            if over in self.inputs and out in self.outputs:
                return Result(out, over=over)
            raise DidymaError("bad-option", f"--arg {item}", got=what, want=_WANT)
        if what in self.outputs:
            return Result(what)
        if what in self.inputs:
            return Operand(what)
        if what in self.memory:
            return Kept(what)
        if what == "null" and p.pointer is not False:
            return Scalar("0", DType.U64)
        if what == "out" and (left := self.left(list(self.outputs))):
            return Result(left[0])
        if m := _TYPED.match(what):
            return Scalar(m[2], _dtype(m[1], item))
        if p.pointer:
            known = ", ".join((*self.inputs, *self.outputs, *self.memory))
            raise DidymaError("spec-mismatch", f"--arg {item}", got=what, want=f"one of {known}")
        return Scalar(what, _scalar_dtype(p))

    def by_name(self) -> None:
        """Give parameters what has their names."""
        for table in (self.inputs, self.outputs):
            for name in self.left(list(table)):
                self._take(name, Operand(name) if table is self.inputs else Result(name))
        for name in self.left(list(self.memory)):
            self._take(name, Kept(name))
        for name in self.sizes:
            for k, p in enumerate(self.params):
                if self.roles[k] is None and not p.pointer and _plain(p.name) == _plain(name):
                    self.roles[k] = Scalar(name, _scalar_dtype(p))
        self._strides()

    def _strides(self) -> None:
        """Give numbers that are named after the strides of an array what they say.

        An array has its own name and that of the pointer to it.
        """
        ranks = {n: len(t.shape) for n, t in (*self.inputs.items(), *self.outputs.items())}
        own = {_plain(p.name): r.name for p, r in zip(self.params, self.roles, strict=True)
               if isinstance(r, Operand | Result)}  # fmt: skip
        called = {name: ranks[array] for name, array in own.items()} | ranks
        lettered: dict[str, int] = {}
        for k, p in enumerate(self.params):
            found = None if p.pointer or self.roles[k] is not None else _stride(p.name, called)
            if found is None:
                continue
            name, axis = found[0] if found[0] in ranks else own[found[0]], found[1]
            if axis is None:  # named by letters, in the order of the axes
                axis = lettered[name] = lettered.get(name, -1) + 1
            if axis < ranks[name]:
                self.roles[k] = Scalar(f"stride({name}, {axis})", _scalar_dtype(p))

    def _take(self, name: str, role: Role) -> None:
        near = [k for k, p in enumerate(self.params) if _plain(p.name) == _plain(name)]
        free = [k for k in near if self.roles[k] is None and self._suits(role, self.params[k])]
        if len(free) == 1:
            self.roles[free[0]] = role

    def _suits(self, role: Role, p: Parameter) -> bool:
        if isinstance(role, Operand) and p.pointer is False:
            return not self.inputs[role.name].shape
        return p.pointer is not False and not (p.const and isinstance(role, Result))

    def by_order(self) -> None:
        """Give pointers the inputs and outputs that are left, and integers the sizes."""
        open_ = [k for k, r in enumerate(self.roles) if r is None]
        pointers = [k for k in open_ if self.params[k].pointer is not False]
        read = self.left(list(self.inputs))
        written = self.left(list(self.outputs))
        constant = [k for k in pointers if self.params[k].const]
        others = [k for k in pointers if not self.params[k].const]
        if len(constant) == len(read) and len(others) == len(written):
            pointers = [*constant, *others]
        row: list[Role] = [*map(Operand, read), *map(Result, written)]
        for k, role in zip(pointers, row, strict=False):
            self.roles[k] = role
        self._strides()
        numbers = [
            k for k, r in enumerate(self.roles)
            if r is None and not self.params[k].pointer and not self.params[k].is_float
            and self.params[k].nbytes <= _NUMBER
        ]  # fmt: skip
        used = {r.expression for r in self.roles if isinstance(r, Scalar)}
        sizes = [s for s in self.sizes if s not in used]
        if len(numbers) == len(sizes):
            for k, s in zip(numbers, sizes, strict=True):
                self.roles[k] = Scalar(s, _scalar_dtype(self.params[k]))

    def finished(self) -> tuple[Role, ...]:
        """Return the roles; DidymaError ``spec-mismatch`` where something is left or differs."""
        roles = [r for r in self.roles if r is not None]
        lost = [p.name for p, r in zip(self.params, self.roles, strict=True) if r is None]
        if lost:
            missing = self.left([*self.inputs, *self.outputs])
            sizes = ", ".join(self.sizes) or "none"
            raise self.mismatch(
                f"parameters without a meaning: {', '.join(lost)}",
                f"--arg {lost[0]}=MEANING: a number of sizes ({sizes}), or an input or output "
                f"without a parameter ({', '.join(missing) or 'none'})",
            )
        for p, role in zip(self.params, roles, strict=True):
            want = self._type_of(role)
            if want is not None and p.dtype is not None and not _same(p.dtype, want):
                raise self.mismatch(
                    f"parameter {p.name}, of {p.dtype.value}", f"{want.value} of {_names(role)[0]}"
                )
            if isinstance(role, Operand) and p.pointer is False and self.inputs[role.name].shape:
                raise self.mismatch(
                    f"parameter {p.name}, a number",
                    f"a pointer to {role.name}: {self.inputs[role.name]}",
                )
        return tuple(roles)

    def _type_of(self, role: Role) -> DType | None:
        match role:
            case Operand(name):
                return self.inputs[name].dtype
            case Result(name):
                return self.outputs[name].dtype
            case Kept(name):
                return self.memory[name].dtype
            case _:
                return None

    def mismatch(self, got: str, want: str) -> DidymaError:
        """Return the error, with the kernel's parameters and the specification's."""
        kernel = ", ".join(p.name for p in self.params) or "no parameters"
        spec = f"{', '.join(self.inputs) or 'no inputs'} -> {', '.join(self.outputs)}"
        return DidymaError(
            "spec-mismatch", f"kernel ({kernel}), specification ({spec})", got=got, want=want,
            help=f"--arg {_WANT}",
        )  # fmt: skip


def _same(of_kernel: DType, want: DType) -> bool:
    """Return whether a kernel may take an array of a dtype as one of another.

    PyTorch has few unsigned integers, so kernels read its signed ones as words of bits.
    """
    both = of_kernel.is_int and want.is_int and of_kernel.nbytes == want.nbytes
    return of_kernel is want or both


def _names(role: Role | None) -> tuple[str, ...]:
    match role:
        case Operand(name) | Kept(name):
            return (name,)
        case Result(name, _, over):
            return (name, over) if over else (name,)
        case _:
            return ()


def _plain(name: str) -> str:
    """Return a name without case and the marks of pointers.

    >>> _plain("d_X"), _plain("out_ptr")
    ('x', 'out')
    """
    return re.sub(r"^d_|_?ptr$|_d$", "", name.lower())


def _stride(name: str, ranks: Mapping[str, int]) -> tuple[str, int | None] | None:
    """Return the array and the axis whose stride a parameter's name names; None for other names.

    The axis is None where a letter stands for it.

    >>> _stride("stride_xm", {"x": 2}), _stride("x_stride_1", {"x": 2}), _stride("ldx", {"x": 2})
    (('x', None), ('x', 1), ('x', 0))
    """
    plain = name.lower()
    for array, rank in ranks.items():
        own = re.escape(_plain(array))
        m = re.fullmatch(rf"(?:stride_?{own}|{own}_stride|ld_?{own}|{own}_ld)_?([a-z0-9]?)", plain)
        if m is None or not rank:
            continue
        if m[1].isdecimal():
            return array, int(m[1])
        return array, None if m[1] else max(0, rank - 2)
    return None


def _scalar_dtype(p: Parameter) -> DType:
    return p.dtype or {1: DType.U8, 2: DType.I16, 8: DType.I64}.get(p.nbytes, DType.I32)


def _dtype(name: str, item: str) -> DType:
    known: Iterator[DType] = (d for d in DType if not d.is_packed)
    table = {d.value: d for d in known}
    if name not in table:
        raise DidymaError(
            "unknown-dtype", f"--arg {item}", got=name, want=f"one of {', '.join(table)}"
        )
    return table[name]
