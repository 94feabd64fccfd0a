"""Calls of what other people's parts are made of: whatever goes wrong in them names the part."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from didyma.refimpl.errors import DidymaError

P = ParamSpec("P")
T = TypeVar("T")
Test = Callable[[object], bool]
FAILED = "failed-part"
_LONG = 60  # characters of what a message shows of a value


@contextmanager
def named(where: str, want: str) -> Generator[None]:
    """Raise ``failed-part`` in place of any exception, which names the function of a part.

    A DidymaError stays as it is, with a note, such as that of a law that a kernel breaks.
    """
    try:
        yield
    except DidymaError as e:
        if e.code != FAILED:
            e.add_note(f"in {where}")
        raise
    except Exception as e:
        raise _failed(where, f"{type(e).__name__}: {e}", want) from e


def guarded(where: str, f: Callable[P, T], want: str, fits: Test) -> Callable[P, T]:
    """Return a function of a part as one that keeps its contract.

    DidymaError ``failed-part`` where it raises anything, or returns what does not fit.
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with named(where, want):
            made = f(*args, **kwargs)
        _require(made, where, want, fits)
        return made

    return run


def each(where: str, f: Callable[[], Iterable[T]], want: str, fits: Test) -> Iterator[T]:
    """Yield what a function of a part yields; DidymaError ``failed-part`` as of ``guarded``."""
    with named(where, want):
        found = iter(f())
    while True:
        with named(where, want):
            try:
                made = next(found)
            except StopIteration:
                return
        _require(made, where, want, fits)
        yield made


def _require(made: object, where: str, want: str, fits: Test) -> None:
    with named(where, want):
        if not fits(made):
            text = repr(made)
            shown = text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
            raise _failed(where, f"{shown}, of type {type(made).__name__}", want)


def _failed(where: str, got: str, want: str) -> DidymaError:
    return DidymaError(FAILED, where, got=got, want=want, help="mend it, or choose another")


# ---- what values may be


def is_count(x: object) -> bool:
    """Return whether a value is an integer that is not negative.

    >>> is_count(3), is_count(True), is_count(-1), is_count("3")
    (True, False, False, False)
    """
    return isinstance(x, int) and not isinstance(x, bool) and x >= 0


def is_named(x: object, fits: Test) -> bool:
    """Return whether a value is a mapping of names to values that fit."""
    if not isinstance(x, Mapping):
        return False
    items: list[tuple[object, object]] = list(x.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]  # any mapping
    return all(isinstance(k, str) and k.isidentifier() and fits(v) for k, v in items)


def is_counts(x: object) -> bool:
    """Return whether a value is a sequence of integers that are not negative.

    >>> is_counts((1, 2)), is_counts(range(3)), is_counts("12"), is_counts(2)
    (True, True, False, False)
    """
    if not isinstance(x, list | tuple | range):
        return False
    items: list[object] = list(x)  # pyright: ignore[reportUnknownArgumentType]  # any sequence
    return all(map(is_count, items))


def is_pair(x: object) -> bool:
    """Return whether a value is a pair of integers that are not negative."""
    return is_counts(x) and isinstance(x, Sized) and len(x) == 2


def is_truth(x: object) -> bool:
    """Return whether a value is true or false."""
    return isinstance(x, bool)
