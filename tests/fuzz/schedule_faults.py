"""Faults planted in schedule steps: each lets a step do what it should refuse, or leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from didyma.codegen.lower.scalar import identity as real_identity
from didyma.codegen.schedule.steps import compute_at, folds, fuse, kinds, reorder, split, stage
from didyma.codegen.schedule.steps.accesses import update_of
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.schedules import outcome
from didyma.fuzz.schedules import cases, steps
from didyma.fuzz.schedules.judge import judge
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Binary, Const, Load, Stmt, Store
from didyma.refimpl.ir.types import DType

Patch: TypeAlias = Callable[[Any, str, Any], None]  # as ``pytest.MonkeyPatch.setattr``


def _nothing(*args: Any, **named: Any) -> None:
    del args, named


def _unguarded(patch: Patch) -> None:
    real = split._two  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it

    def two(*args: Any, guarded: bool) -> Stmt:
        del guarded
        return real(*args, guarded=False)

    patch(split, "_two", two)


def _unfilled(patch: Patch) -> None:
    real = stage._first  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it

    def first(*args: Any) -> bool:
        real(*args)
        return False

    patch(stage, "_first", first)


def _subtracting(patch: Patch) -> None:
    """Take a difference for an operation whose terms may come in any order."""

    def update(s: Stmt) -> str:
        if isinstance(s, Store) and isinstance(s.value, Binary) and s.value.op == "sub":
            mine = s.value.lhs
            same = isinstance(mine, Load) and (mine.buffer, mine.index) == (s.buffer, s.index)
            return "sub" if same else ""
        return update_of(s)

    def identity(op: Any, dtype: DType) -> Const:
        if op == "sub":
            return Const(0.0 if dtype.is_float else 0, dtype)
        return real_identity(op, dtype)

    ops = folds._OPS  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it
    patch(folds, "update_of", update)
    patch(steps, "update_of", update)  # what is drawn asks it too, of where there is a fold
    patch(folds, "_OPS", {**ops, "sub": "sub"})
    patch(folds, "identity", identity)


def _off_by_one(patch: Patch) -> None:
    real = split.remainder

    def remainder(extent: Any, factor: int) -> Any:
        rest = real(extent, factor)
        return rest if rest == ix.ZERO else ix.sub(rest, ix.ONE)

    patch(split, "remainder", remainder)


FAULTS: Mapping[str, Callable[[Patch], None]] = MappingProxyType(
    {
        "reorder ignores dependences": lambda patch: patch(reorder, "reversed_by", _nothing),
        "join ignores dependences": lambda patch: patch(fuse, "_across", _nothing),
        "parallel ignores dependences": lambda patch: patch(kinds, "carried", _nothing),
        "compute_at ignores dependences": lambda patch: patch(compute_at, "unchanged", _nothing),
        "a split has no guard": _unguarded,
        "a peeled rest is one short": _off_by_one,
        "a stage is read before it is filled": _unfilled,
        "rfactor takes a difference apart": _subtracting,
    }
)


def first_killed(seed: int, indices: range) -> int | None:
    """Return the first index of a case that is found to be wrong."""
    return next((i for i in indices if _judged(seed, i).findings), None)


def _judged(seed: int, index: int) -> Outcome:
    case = cases.draw(seed, index)
    return outcome(case, judge(case, ()))


if __name__ == "__main__":
    from time import process_time

    for name, plant in FAULTS.items():
        changed: list[tuple[Any, str, Any]] = []

        def patch(
            target: Any, attribute: str, value: Any, undo: list[tuple[Any, str, Any]] = changed
        ) -> None:
            undo.append((target, attribute, getattr(target, attribute)))
            setattr(target, attribute, value)

        plant(patch)
        began = process_time()
        at = first_killed(11, range(2000))
        print(f"{name}: killed by case {at} after {process_time() - began:.1f} s")
        for target, attribute, value in changed:
            setattr(target, attribute, value)
