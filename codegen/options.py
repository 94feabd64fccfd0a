"""What a caller may choose about a compile: one frozen argument, no global switches.

The choices stand in groups, one for each part of the compiler.  In text (the command line, a
finding, a case of a campaign) a choice is named by its path, such as ``kernels.block``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, TypeVar, cast

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import PORTABLE, TARGETS, Target

if TYPE_CHECKING:
    from didyma.codegen.codegens import Codegen
    from didyma.codegen.memory.planners import Choice
    from didyma.codegen.schedule.recipes.recipe import Recipe
    from didyma.refimpl.ir.graph import Module

EMBEDDED = 1 << 16
STREAMS = 8  # the most that launches are spread over
VERSION = 2  # of a record; 1 had the choices of all groups side by side


@dataclass(frozen=True, slots=True)
class Rule:
    """What the value of a choice must be: a test, its description, and the code of the error."""

    holds: Callable[[Any], bool]
    want: str
    code: str = "bad-option"


def _is_tuple(x: object) -> TypeGuard[tuple[object, ...]]:
    """Return whether a value is a tuple, of whatever it may be."""
    return isinstance(x, tuple)


_ANY = Rule(lambda x: True, "a value")
_TEXT = Rule(lambda x: type(x) is str, "a text")
_TUPLE = Rule(_is_tuple, "a tuple")
_NAMES = Rule(lambda x: _is_tuple(x) and all(isinstance(n, str) for n in x), "a tuple of names")
_TARGET = Rule(
    lambda x: isinstance(x, Target) or x in TARGETS,
    f"one of {', '.join(TARGETS)}, or a Target",
    code="unknown-target",
)
_FLAG = Rule(lambda x: type(x) is bool, "true or false")
_BLOCK = Rule(
    lambda x: type(x) is int and 32 <= x <= PORTABLE.threads and x & (x - 1) == 0,
    f"a power of two from 32 to {PORTABLE.threads}",
)
_CAPACITY = Rule(
    lambda x: x is None or (type(x) is int and x >= 0), "0 or more", code="bad-capacity"
)
_SECONDS = Rule(
    lambda x: x is None or (type(x) in (int, float) and 0 <= x < float("inf")), "seconds, 0 or more"
)


def _about(doc: str, rule: Rule = _ANY) -> Mapping[str, Any]:
    """Return what a field says of a choice: what it is, and what its value must be."""
    return {"doc": doc, "rule": rule}


def _flag(doc: str) -> bool:
    """Return the field of a choice that is usually true."""
    flag: bool = field(default=True, metadata=_about(doc, _FLAG))
    return flag


def _only(group: type[object]) -> Mapping[str, Any]:
    """Return what a field says of a group of choices."""
    return {"rule": Rule(lambda x: isinstance(x, group), f"a {group.__name__}")}


def _number(default: int, doc: str, low: int = 0, high: int | None = None) -> int:
    """Return the field of a choice that is an integer from ``low`` to ``high``."""
    want = f"an int of at least {low}" if high is None else f"a number from {low} to {high}"
    most = float("inf") if high is None else high
    rule = Rule(lambda x: type(x) is int and low <= x <= most, want)
    number: int = field(default=default, metadata=_about(doc, rule))
    return number


@dataclass(frozen=True, slots=True, repr=False)
class _Group:
    """Choices that are checked when the group is made; its text shows those that are not usual."""

    path: ClassVar[str] = ""  # what the path of each choice begins with

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            rule: Rule = f.metadata["rule"]
            if not rule.holds(value):
                raise DidymaError(
                    rule.code, f"{self.path}{f.name} = {value}", got=str(value), want=rule.want
                )

    def __repr__(self) -> str:
        """Show what differs from the usual, a planner by its name."""
        rows = ((f.name, getattr(self, f.name)) for f in fields(self) if not _is_usual(self, f))
        words = (f"{name}={_named(value)!r}" for name, value in rows)
        return f"{type(self).__name__}({', '.join(words)})"


G = TypeVar("G", bound=_Group)


def _is_usual(group: _Group, f: Field[Any]) -> bool:
    """Return whether a choice has its usual value; a planner is the same as its name."""
    return bool(_named(getattr(group, f.name)) == f.default)


def _named(value: Any) -> Any:
    """Return a value as plain data: planners and passes that are objects by their names."""
    if _is_tuple(value):
        return tuple(getattr(v, "__name__", getattr(v, "name", v)) for v in value)
    return getattr(value, "name", value)


@dataclass(frozen=True, slots=True, repr=False)
class GraphOptions(_Group):
    """Choices about graph passes; the numbers change speed, never results."""

    path: ClassVar[str] = "graph."

    level: int = _number(
        3,
        "optimisation level: 0 makes a kernel of every op, 1 simplifies, 2 fuses, 3 also reorders"
        " sums",
        high=3,
    )
    required: tuple[str, ...] = field(
        default=(), metadata=_about("graph passes that run whatever the level is", _NAMES)
    )
    disabled: tuple[str, ...] = field(
        default=(), metadata=_about("graph passes that do not run", _NAMES)
    )
    passes: tuple[str | Callable[[Module], Module], ...] = field(
        default=(),
        metadata=_about(
            "passes of your own that run before fusion: functions of a module, or registered names",
            _TUPLE,
        ),
    )
    simplify: bool = _flag("whether graphs are simplified, which also blocks running sums")
    fuse: bool = _flag("whether ops are fused; if not, every op becomes a kernel of its own")
    fold_operand: int = _number(4096, "elements of a constant that is folded, at most")
    fold_result: int = _number(
        64, "elements of a folded constant, or as many as its largest operand has"
    )
    long_run: int = _number(
        1 << 14,
        "elements from which on a few running sums or products are computed in blocks",
        low=8,
    )
    kernel_cost: int = _number(
        128, "most that a kernel computes for one element; the unit is an addition"
    )
    again_cost: int = _number(
        10, "most that another kernel recomputes rather than reads from memory"
    )
    spread_cost: int = _number(4, "most that is recomputed for each of many readers of one element")
    product_cost: int = _number(2, "most that a product recomputes at each read of an operand")
    outputs: int = _number(4, "most results of one kernel", low=1)
    routines: tuple[str, ...] = field(
        default=(),
        metadata=_about("registered routines of libraries that take over functions", _NAMES),
    )
    rows: bool = field(
        default=True,
        metadata=_about("whether folds of the same rows and what uses them are one kernel", _FLAG),
    )
    channels: bool = _flag(
        "whether convolutions of 16 bits read their channels last, on targets with the family mma,"
        " and others weights by the channels of results, on a CPU"
    )
    parts: int = _number(
        0,
        "parts in which terms of a product of matrices are summed, on targets with the family mma;"
        " 0: as many as a model finds fastest; 1: always one",
    )
    converted: int = _number(
        1 << 27,
        "multiplications of a product from which on its operands are converted to 16 bits in"
        " memory, on targets with the families wgmma and tma",
    )
    attention: bool = _flag(
        "whether two products and the softmax between them, or a product and those that its weights"
        " are computed of (on targets with `mma`), are one function, for which there may be one"
        " kernel"
    )


@dataclass(frozen=True, slots=True, repr=False)
class KernelOptions(_Group):
    """Choices about schedules and launches; the numbers change speed, never results."""

    path: ClassVar[str] = "kernels."

    block: int = field(
        default=256, metadata=_about("threads of a block where the shape asks for no other", _BLOCK)
    )
    vectorise: bool = _flag("whether kernels load and store 16 bytes at once")
    streams: int = _number(1, "streams that launches are spread over", low=1, high=STREAMS)
    full: int = _number(
        4096,
        "results that fill a device at one thread each; 16 times as many do where each reads"
        " elements of its own",
    )
    few: int = _number(256, "results that alone do not fill a device with threads")
    short: int = _number(16, "terms that one thread adds up alone")
    split: int = _number(4096, "terms of a block, at least, where blocks share a fold", low=1)
    chain: int = _number(64, "additions in a row that are not worth cutting")
    unroll: int = _number(16, "copies of a loop's body")
    edges: int = _number(4, "wide accesses to a row from which on it is read so wherever it begins")
    held: int = _number(64, "elements of a row that a thread holds, at most")
    online: int = _number(
        32,
        "elements that a thread takes at once where two folds of a row are done in one pass; 0:"
        " never",
    )
    wide_product: int = _number(
        8, "rows and columns from which on gathered tiles of a product are filled"
    )
    gathered: int = _number(32, "terms from which on gathered tiles of a product are filled")
    contract: bool = _flag(
        "whether a compiler may round a product and a sum once, as engine `cuda` then does"
    )
    atomics: bool = field(
        default=False,
        metadata=_about(
            "whether sums and products of floats may be scattered by atomic updates: results then"
            " differ from run to run",
            _FLAG,
        ),
    )
    waits: bool = _flag(
        "whether blocks may wait for those before them, on targets that allow it: a few long"
        " running sums, if not too long, are then computed in one pass"
    )
    codegens: tuple[str | Codegen, ...] = field(
        default=(),
        metadata=_about(
            "codegens and templates of your own that are asked for kernels first: objects, or"
            " registered names",
            _TUPLE,
        ),
    )
    recipes: tuple[str | Recipe, ...] = field(
        default=(),
        metadata=_about(
            "recipes of your own that the model ranks, too: objects, or registered names", _TUPLE
        ),
    )
    choices: str = field(
        default="",
        metadata=_about(
            "schedules of functions, as NAME: CHOICE with bars between them; the others are picked"
            " by the model",
            _TEXT,
        ),
    )
    schedules: str = field(
        default="",
        metadata=_about("schedules of steps, as text, for the functions that they name", _TEXT),
    )
    variants: int = _number(
        1, "most kernels for one loop nest, among which a run chooses", low=1, high=8
    )
    force: str = field(
        default="",
        metadata=_about(
            "what a run chooses without timing: the number of a variant, or a recipe", _TEXT
        ),
    )
    finite: bool = field(
        default=False,
        metadata=_about("whether a NaN or infinity that a chosen kernel writes is an error", _FLAG),
    )


@dataclass(frozen=True, slots=True, repr=False)
class MemoryOptions(_Group):
    """Choices about memory: its planner, and what the planner may use."""

    path: ClassVar[str] = "memory."

    planner: Choice = field(
        default="didyma", metadata=_about("a memory planner, by name or as an object")
    )
    capacity: int | None = field(
        default=None,
        metadata=_about(
            "bytes on each device that a plan may use beside inputs and constants", _CAPACITY
        ),
    )
    plan_seconds: float | None = field(
        default=None,
        metadata=_about(
            "seconds that a planner may search for each arena; without, it takes milliseconds and"
            " gives the same plan on every machine",
            _SECONDS,
        ),
    )
    embedded: int = _number(
        EMBEDDED, "bytes of constants that stand in the wrapper, not in a file beside it"
    )
    views: bool = _flag(
        "whether results that need no kernel are inputs, or views of these and of other results;"
        " never on GPUs"
    )
    eager: bool = field(
        default=False,
        metadata=_about(
            "whether copies are left out, and bytes taken over, wherever that is right and even if"
            " the peak is higher",
            _FLAG,
        ),
    )

    @property
    def planner_name(self) -> str:
        """Name of the planner, however it was given."""
        return self.planner if isinstance(self.planner, str) else self.planner.name


@dataclass(frozen=True, slots=True, repr=False)
class Options(_Group):
    """Choices of a compile, in groups; every stage sees the same ones.

    Errors: ``bad-option`` and ``bad-capacity`` for a value that a choice cannot have.

    >>> Options(kernels=KernelOptions(block=64))
    Options(kernels=KernelOptions(block=64))
    >>> Options().changed({"kernels.block": 64}).kernels.block
    64
    """

    target: str | Target = field(
        default=PORTABLE.name,
        metadata=_about("what kernels and programs may rely on, by name or as an object", _TARGET),
    )
    graph: GraphOptions = field(default=GraphOptions(), metadata=_only(GraphOptions))
    kernels: KernelOptions = field(default=KernelOptions(), metadata=_only(KernelOptions))
    memory: MemoryOptions = field(default=MemoryOptions(), metadata=_only(MemoryOptions))
    verify: bool = _flag("whether the laws of each level are checked between stages")

    @property
    def device(self) -> Target:
        """The target, however it was given."""
        return self.target if isinstance(self.target, Target) else TARGETS[self.target]

    @property
    def block(self) -> int:
        """Threads of a block: as many as are wished, where the target allows them."""
        return min(self.kernels.block, 1 << self.device.threads.bit_length() - 1)

    def choices(self) -> dict[str, Any]:
        """Return the value of every choice by its path, the planner by its name.

        >>> Options().choices()["memory.planner"]
        'didyma'
        """
        found: dict[str, Any] = {}
        for group in _groups(self):
            for name in _own(type(group)):
                found[group.path + name] = _named(getattr(group, name))
        return found

    def changed(self, choices: Mapping[str, Any]) -> Options:
        """Return the options with other values of choices, which are named by their paths.

        DidymaError ``unknown-option`` for a path that names no choice.
        """
        for path in choices:
            if path not in USUAL:
                raise _unknown(path)
        return replace(
            _with(self, choices),
            graph=_with(self.graph, choices),
            kernels=_with(self.kernels, choices),
            memory=_with(self.memory, choices),
        )

    def with_codegens(self, first: Sequence[Codegen]) -> Options:
        """Return the options with codegens that are asked before the others."""
        every = (*first, *self.kernels.codegens)
        return self.changed({"kernels.codegens": every}) if first else self

    def record(self) -> dict[str, Any]:
        """Return the choices as plain data, with the version of its form.

        >>> Options().record()["memory"]["planner"]
        'didyma'
        """
        found: dict[str, Any] = {"version": VERSION}
        for path, value in self.choices().items():
            group, _, name = path.rpartition(".")
            (found.setdefault(group, {}) if group else found)[name] = value
        return found

    @staticmethod
    def recorded(record: Mapping[str, Any]) -> Options:
        """Return the options of a record of this version or an older one.

        Errors: ``newer-format`` for a record of a later version, ``unknown-option``, and those of
        the values.
        """
        version = int(record.get("version", 1))
        if version > VERSION:
            raise DidymaError(
                "newer-format", "options", got=f"options of version {version}",
                want=f"version {VERSION} or lower", help="install the didyma that wrote them",
            )  # fmt: skip
        return Options().changed(dict(_flat(record) if version == 1 else _nested(record)))


def _with(group: G, choices: Mapping[str, Any]) -> G:
    """Return a group with those choices whose paths name one of its own."""
    mine = [p for p in choices if p.rpartition(".")[0] == group.path[:-1]]
    given = {p.rpartition(".")[2]: _frozen(choices[p]) for p in mine}
    return replace(group, **given) if given else group


def _frozen(value: Any) -> Any:
    """Return a value as options hold it: the list that a record has for a tuple as one."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _unknown(path: str) -> DidymaError:
    near = [p for p in USUAL if p.rpartition(".")[2] == path.rpartition(".")[2]]
    return DidymaError(
        "unknown-option", path, got=path, want=f"one of {', '.join(USUAL)}",
        help=f"did you mean {near[0]}?" if near else "",
    )  # fmt: skip


def _groups(options: Options) -> tuple[_Group, ...]:
    """Return the options themselves, and the groups in them."""
    return (options, options.graph, options.kernels, options.memory)


def _own(group: type[_Group]) -> tuple[str, ...]:
    """Return the names of the choices that a group has, without those of groups in it."""
    return tuple(f.name for f in fields(group) if not isinstance(f.default, _Group))


DEFAULT = Options()
USUAL: Mapping[str, Any] = MappingProxyType(DEFAULT.choices())  # value of each choice, by path
DOCS: Mapping[str, str] = MappingProxyType(
    {
        group.path + f.name: str(f.metadata["doc"])
        for group in _groups(Options())
        for f in fields(group)
        if f.name in _own(type(group))
    }
)  # what each choice is


def _flat(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the choices of a record of version 1, in which names stood without their groups."""
    paths = {path.rpartition(".")[2]: path for path in USUAL}
    for name, value in record.items():
        yield paths.get(name, name), value


def _nested(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            inner = cast("Mapping[str, Any]", value)
            yield from ((f"{name}.{own}", v) for own, v in inner.items())
        elif name != "version":
            yield name, value


def choose(options: Options | None = None, planner: Choice | None = None) -> Options:
    """Return options, or the usual ones, with another planner where one is given.

    DidymaError ``bad-option`` for what is no ``Options``.
    """
    chosen = Options() if options is None else options
    if not isinstance(cast("object", chosen), Options):
        raise DidymaError(
            "bad-option", "options", got=f"{chosen!r:.60}", want="an Options",
            help='Options().changed({"kernels.block": 64}) takes a dict',
        )  # fmt: skip
    return chosen if planner is None else chosen.changed({"memory.planner": planner})
