"""``dd.kernel``: a kernel of your own as an operation of traced functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from didyma.codegen import codegens, intrinsics
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.subset import HEAD
from didyma.codegen.emit.text_kernel import Head, Reader
from didyma.codegen.schedule.dispatch import names as recipes
from didyma.codegen.templates.language import compiled, failed_line
from didyma.codegen.user_kernels import Configuration, UserKernel
from didyma.composites.builder import Builder, Value
from didyma.functions.control import traced_body
from didyma.refimpl.errors import DidymaError, counted, reason
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import KERNEL, PRIMITIVE, Attr, Function, Module, attrs
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Buffer
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify import graph as laws
from didyma.tracer.signatures import check_arguments, name_of, same_type, signature_of, spec_of
from didyma.tracer.tensor import Operand, Tensor, common, constant, is_scalar, number, within
from didyma.tracer.tracing import Program, Type, trace
from didyma.tracer.types import AnySize, Size, Spec, merge_ranges, size

Sizes: TypeAlias = AnySize | Sequence[AnySize]
Reference: TypeAlias = Program | Callable[..., Tensor | Sequence[Tensor]]
_PARAMETER = re.compile(r"[a-z][a-z_]*")
_MOST = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class KernelOp:
    """A kernel as an operation: call it with tensors in a traced function."""

    kernel: UserKernel
    params: Mapping[str, TensorType]
    ranges: tuple[DimVar, ...]
    reference: Callable[..., Tensor | Sequence[Tensor]]

    def __call__(self, *args: Operand) -> Tensor | tuple[Tensor, ...]:
        """Apply it to tensors, NumPy arrays and numbers of the types of its signature.

        Errors: ``arity``, ``type-mismatch``, ``bad-operand`` where no argument is a tensor.
        """
        name, types = self.kernel.name, list(self.params.values())
        if len(args) != len(types):
            raise DidymaError(
                "arity", name, got=counted(len(args), "argument"), want=", ".join(self.params)
            )
        b = common(*(a for a in args if isinstance(a, Tensor)))
        operands = [
            number(b, a, t.dtype) if is_scalar(a) else constant(b, a)
            for a, t in zip(args, types, strict=True)
        ]
        values = [within(b, a) for a in operands]
        declared = {v.name: (v.lo, v.hi) for v in self.ranges}
        check_arguments(name, self.params, [v.type for v in values], declared, b.ranges())
        if b.kernels.setdefault(name, self.kernel) != self.kernel:
            raise DidymaError(
                "bad-kernel", name, got=f"two kernels called {name} in a program",
                want="another name for one of them", help='dd.kernel(..., name="other")',
            )  # fmt: skip
        return applied(b, self, self.reference, values, name, {PRIMITIVE: 1, KERNEL: name})


def applied(
    b: Builder,
    op: object,
    reference: Callable[..., Tensor | Sequence[Tensor]],
    values: Sequence[Value],
    name: str,
    marks: Mapping[str, Attr],
) -> Tensor | tuple[Tensor, ...]:
    """Call a function that means what a reference does, marked as an operation's.

    Equal types share a function.  DidymaError ``bad-reference`` for a reference that takes tensors
    from around it.
    """
    key = op, tuple(v.type for v in values)
    callee = b.traced.get(key)
    if callee is None:
        inner, results, _ = traced_body(b, reference, key[1])
        if inner.captures:
            captured = ", ".join(inner.captures)
            raise misfit(name, f"one that uses {captured} from around it", "its arguments")
        callee = b.add(replace(inner.function(name, results), attrs=attrs(marks)))
        b.traced[key] = callee
    tensors = tuple(Tensor(b, v) for v in b.call(callee, values))
    return tensors[0] if len(tensors) == 1 else tensors


def kernel(
    source: str | Path,
    signature: Mapping[str, Type],
    *,
    reference: Reference,
    grid: Sizes | Callable[..., Sizes],
    block: Sizes | Callable[..., Sizes],
    configs: Sequence[Mapping[str, int]] = ({},),
    workspace: Mapping[str, Type | Callable[..., Type]] | None = None,
    zeroed: Sequence[str] = (),
    chain: AnySize | Callable[..., AnySize] | None = None,
    intrinsics: Sequence[str | Intrinsic] = (),
    name: str = "",
) -> KernelOp:
    """Make an operation of a kernel: CUDA C in the subset of kernel text, or a file of it.

    ``signature`` has the type of each pointer of the text by its name: those that are ``const`` are
    operands, the others results.  ``reference`` is a function of tensors that says what the kernel
    computes, and by which it is judged: elementwise operations and at most one product or other
    large operation, or reductions of the same rows.

    ``configs`` are values of the text's parameters, which it names in ``{{ braces }}``; a compile
    takes the first that its target can hold, and tuning the fastest.  ``grid`` and ``block`` count
    blocks and threads along x, y and z.  They, ``chain`` and the types of the ``workspace`` may be
    functions of parameters and sizes, by their names.  The workspace is memory that the kernel may
    write; what is ``zeroed`` of it is zero at the start.  ``chain`` and ``intrinsics`` are those of
    ``dd.TextKernel``.  ``name`` is that of the text without it.

    Errors: ``bad-kernel`` with the line of the text, ``bad-reference``, ``unreadable-file``.

    Examples:
        >>> import numpy as np
        >>> import didyma as dd
        >>> n = dd.dim("n", 1, 1 << 20)
        >>> twice = dd.kernel(
        ...     '''extern "C" __global__ void twice(const f32 *x, f32 *y, i64 n) {
        ...       const i64 i = blockIdx.x * {{ threads }} + threadIdx.x;
        ...       if (i < n) y[i] = 2.0f * x[i];
        ...     }''',
        ...     {"x": dd.f32[n], "y": dd.f32[n]},
        ...     reference=lambda x: x + x,
        ...     grid=lambda n, threads: (n + threads - 1) // threads,
        ...     block=lambda threads: threads,
        ...     configs=[{"threads": 128}, {"threads": 256}],
        ... )
        >>> f = dd.trace(dd.f32[5])(lambda x: dd.exp(twice(x)))
        >>> dd.compile(f)(np.zeros(5, np.float32))
        array([1., 1., 1., 1., 1.], dtype=float32)
    """
    made = _Making(_text_of(source), dict(signature), workspace or {}, tuple(zeroed), name)
    given: tuple[object, ...] = tuple(configs) if hasattr(configs, "__iter__") else ()
    if not given or not all(map(_is_mapping, given)):
        raise made.error(f"the configurations {configs!r:.40}", "one dict of numbers at least")
    rows = [made.configuration(dict(c), grid, block, chain, tuple(intrinsics)) for c in configs]
    distinct = {c.text: c for c in reversed(rows)}
    kept = tuple(c for c in rows if distinct[c.text] is c)
    operands = {n: t for n, t in made.types.items() if n in kept[0].text.reads}
    results = [t for n, t in made.types.items() if n in kept[0].text.writes]
    f = _judged_by(made, reference, operands, results)
    own = UserKernel(made.called, tuple(operands.values()), kept)
    return KernelOp(own, operands, made.ranges, f)


def is_name(name: object) -> bool:
    """Tell whether an operation may have this name: a word that begins with a letter.

    >>> is_name("scan2"), is_name("_scan"), is_name("a b"), is_name(3)
    (True, False, False, False)
    """
    return isinstance(name, str) and name.isidentifier() and not name.startswith("_")


def _is_mapping(x: object) -> bool:
    return isinstance(x, Mapping)


def _text_of(source: str | Path) -> str:
    if isinstance(source, str):
        return source
    if not hasattr(source, "read_text"):
        got = f"{source!r:.40}"
        raise DidymaError("bad-kernel", "dd.kernel", got=got, want="a text, or a Path to a file")
    try:
        return source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise DidymaError(
            "unreadable-file", str(source), got=reason(e), want="a file of CUDA C"
        ) from None


class _Making:
    """What ``dd.kernel`` was given, as configurations are made of it."""

    def __init__(
        self,
        source: str,
        signature: Mapping[str, Type],
        workspace: Mapping[str, Type | Callable[..., Type]],
        zeroed: tuple[str, ...],
        name: str,
    ) -> None:
        self.source = source
        self.workspace = workspace
        self.zeroed = zeroed
        found = HEAD.search(source)
        self.called = name or (found[1] if found else "a text without a kernel")
        specs = {k: spec_of(v) for k, v in signature.items()}
        if strange := [k for k, v in specs.items() if v is None]:
            got = f"{signature[strange[0]]!r:.60} for {strange[0]}"
            raise self.error(got, "a type such as dd.f32[n, 4] for each pointer")
        known = [s for s in specs.values() if s is not None]
        self.ranges = merge_ranges([s.ranges for s in known])
        self.types = {k: s.type for k, s in zip(specs, known, strict=True)}
        self.sizes: Mapping[str, AnySize] = {
            v.name: Size(dims.symbol(v.name), (v,)) for v in self.ranges
        }

    def error(self, got: str, want: str, line: int = 0) -> DidymaError:
        """Return the error for a line of the text, counted from 1, or for all of it."""
        return Reader(self.source, f"dd.kernel, {self.called}").error(line, got, want)

    def configuration(
        self,
        values: Mapping[str, int],
        grid: Any,
        block: Any,
        chain: Any,
        more: tuple[str | Intrinsic, ...],
    ) -> Configuration:
        """Render the text with values of its parameters, and read it."""
        self._require(values)
        try:
            text = compiled(self.source).render(**values)
        except Exception as e:
            got = f"{type(e).__name__}: {e}{_of(values)}"
            raise self.error(got, "a value for each parameter", failed_line(e)) from None
        calls = intrinsics.table(intrinsics.given(more))
        reader = Reader(text, f"dd.kernel, {self.called}", calls)
        head = reader.head()
        taken = (*recipes(), *codegens.own())
        if self.called in taken or not is_name(self.called):
            raise self.error(f"the name {self.called}", "an identifier that no recipe has")
        if strange := [k for k in self.zeroed if k not in self.workspace]:
            known = ", ".join(self.workspace) or "which is empty"
            raise self.error(f"zeros in {strange[0]}", f"a buffer of the workspace: {known}")
        space = {k: self._asked(v, values, f"workspace {k}") for k, v in self.workspace.items()}
        if untyped := [k for k, v in space.items() if spec_of(v) is None]:
            got = f"{space[untyped[0]]!r:.60} for workspace {untyped[0]}"
            raise self.error(got, "a type such as dd.f32[n, 4] for each buffer")
        reads, writes = self._pointers(reader, head, space)
        buffers = tuple(Buffer(k, t.dtype, t.shape) for k, t in _typed(space).items())
        threads = self._three(self._asked(block, values, "block"), "block")
        if not all(isinstance(n, int) for n in threads):
            raise self.error(f"a block of {threads}", "numbers of threads")
        longest = None if chain is None else size(self._asked(chain, values, "chain")).value
        if isinstance(longest, int) and longest < 0:
            raise self.error(f"a chain of {longest} additions", "0 or more")
        made = TextKernel(
            text, reads, writes, self._three(self._asked(grid, values, "grid"), "grid"),
            tuple(map(int, threads)), buffers,  # type: ignore[arg-type]  # three of them
            longest, more, self.zeroed,
        )  # fmt: skip
        return Configuration(tuple(sorted(values.items())), made, head.symbols)

    def _require(self, values: Mapping[str, Any]) -> None:
        """Refuse configurations whose values are no numbers, or have names of sizes."""
        for k, v in values.items():
            if not (isinstance(v, int) and 0 <= v < _MOST and _PARAMETER.fullmatch(k)):
                want = f"a name of small letters, and a whole number below {_MOST}"
                raise self.error(f"the parameter {k}={v!r:.40}", want)
            if k in self.sizes:
                raise self.error(f"the parameter {k}, which is a size", "another name")

    def _asked(self, given: Any, values: Mapping[str, int], what: str) -> Any:
        """Return what was given, or what a function gives of the parameters and sizes it names."""
        if not callable(given) or isinstance(given, Size) or spec_of(given) is not None:
            return given
        known = {**self.sizes, **values}
        wanted = inspect.signature(given).parameters
        if strange := [n for n in wanted if n not in known]:
            want = f"some of {', '.join(known) or 'no names'}: parameters and sizes"
            raise self.error(f"{what} of {strange[0]}", want)
        try:
            return given(**{n: known[n] for n in wanted})
        except DidymaError as e:
            e.add_note(f"in the {what} of {self.called}{_of(values)}")
            raise
        except Exception as e:
            want = "a function that returns sizes"
            raise self.error(f"{what}: {type(e).__name__}: {e}{_of(values)}", want) from e

    def _three(self, given: Any, what: str) -> tuple[Dim, Dim, Dim]:
        """Return extents along x, y and z; those that are not given are 1."""
        row: list[Any] = [*given] if isinstance(given, tuple | list) else [given]
        extents = [size(n).value for n in row]
        if not 1 <= len(row) <= 3 or any(isinstance(n, int) and n < 1 for n in extents):
            want = "one to three extents, each from 1 on"
            raise self.error(f"a {what} of {given!r:.40}", want)
        x, y, z = (*extents, 1, 1)[:3]
        return x, y, z

    def _pointers(
        self, reader: Reader, head: Head, space: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the operands and the results of a text, which must be those of the signature."""
        line = reader.source[: reader.source.index(head.name)].count("\n") + 1
        wanted = {k: c_type(t.dtype) for k, t in {**self.types, **_typed(space)}.items()}
        got = [name for name, _, _ in head.pointers]
        if got != [*wanted]:
            names = ", ".join(wanted)
            raise reader.error(line, f"the pointers {', '.join(got) or 'none'}", names)
        for name, kind, _ in head.pointers:
            if kind != wanted[name]:
                raise reader.error(line, f"{kind} *{name}", f"{wanted[name]} *{name}")
        consts = [const for name, _, const in head.pointers if name in self.types]
        count = consts.index(False) if False in consts else len(consts)
        if any(consts[count:]) or count == len(consts):
            want = "const pointers to operands, then one or more to results that are not const"
            raise reader.error(line, "operands and results in another order, or no result", want)
        if head.idle:
            what = head.idle[0]
            raise reader.error(line, f"no statement that writes {what}", f"a store to {what}")
        for s in head.symbols:
            if s not in self.sizes:
                want = f"a size of the signature: {', '.join(self.sizes) or 'it has none'}"
                raise reader.error(line, f"the argument {s}", want)
        own = (*self.types,)
        return own[:count], own[count:]


def _of(values: Mapping[str, int]) -> str:
    """Return which configuration an error is of.

    >>> _of({"threads": 64, "rows": 2}), _of({})
    (', of the configuration threads=64, rows=2', '')
    """
    row = ", ".join(f"{k}={v}" for k, v in values.items())
    return f", of the configuration {row}" if row else ""


def _typed(specs: Mapping[str, Any]) -> dict[str, TensorType]:
    found = {k: spec_of(v) for k, v in specs.items()}
    return {k: s.type for k, s in found.items() if s is not None}


def function_of(name: str, reference: Reference) -> Callable[..., Tensor | Sequence[Tensor]]:
    """Return the function of a reference; DidymaError ``bad-reference`` where it has none."""
    f = reference.source if isinstance(reference, Program) else reference
    if f is None:
        raise misfit(name, "a program from a file", "a function of tensors")
    if not callable(f):
        raise misfit(name, f"{f!r:.40}", "a function of tensors")
    return f


def _judged_by(
    made: _Making,
    reference: Reference,
    operands: Mapping[str, TensorType],
    results: Sequence[TensorType],
) -> Callable[..., Tensor | Sequence[Tensor]]:
    """Return the function of a reference that has the operands and results of a kernel."""
    f = function_of(made.called, reference)
    given = len(signature_of(f).parameters)
    if given != len(operands):
        want = f"{len(operands)}: {', '.join(operands)}"
        raise misfit(made.called, f"{name_of(f)} of {given} parameters", want)
    types = [Spec(t, made.ranges) for t in operands.values()]
    m = trace(*types)(f).module
    ranges = {v.name: (v.lo, v.hi) for v in made.ranges}
    got = m.entry.result_types()
    same = len(got) == len(results) and all(
        same_type(a, b, ranges) for a, b in zip(got, results, strict=True)
    )
    if not same:
        raise misfit(made.called, f"results {_listed(got)}", f"results {_listed(results)}")
    _require_one_kernel(made.called, m)
    return f


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def _require_one_kernel(name: str, m: Module) -> None:
    """Refuse a reference that no kernel of Didyma's own could compute: it is run by its loops."""
    want = (
        "elementwise operations, and at most one product or other large operation, or several "
        "reductions of the same rows"
    )
    if len(m.functions) > 1:
        raise misfit(name, "a reference with branches, loops or kernels of its own", want)
    f: Function = replace(m.entry, attrs=((PRIMITIVE, 1),))
    try:
        laws.verify(replace(m, functions=(f,)))
    except DidymaError as e:
        raise misfit(name, e.got, want) from None


def misfit(name: str, got: str, want: str) -> DidymaError:
    """Return the error for a reference that is not one of the operation of that name."""
    return DidymaError(
        "bad-reference", f"the reference of {name}", got=got, want=want,
        help="a reference is a function of tensors with the operands and results of the operation",
    )  # fmt: skip
