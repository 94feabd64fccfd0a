"""Folds by one thread each: short ones, and those of which there are enough to fill a device."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule import serial
from didyma.codegen.schedule.recipes import by_thread
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc

ONCE = 16  # times the threads that fill a device, where it takes loads of all to fill the memory


def _fit(work: Work) -> Fit | None:
    if work.fold is None:
        if work.kind != "fold":
            return None
        if work.running is not None:
            return Fit.POOR
        return Fit.SHORT if work.rows is None else Fit.ALONE
    options = work.facts.options
    if work.length <= options.kernels.short:
        apart = work.reads_once and work.reads_along and work.fold_widths[0] > 1
        return Fit.ALONE if apart else Fit.SHORT  # neighbours would read parts of each other's
    enough = options.kernels.full * (ONCE if work.reads_once else 1)
    return Fit.FULL if work.results >= enough and work.reads_are_near else Fit.ALONE


def _default(work: Work) -> Values:
    usual = by_thread.default(work)
    return usual if work.fold is None else {**usual, "parts": int(_is_long(work))}


def _is_long(work: Work) -> bool:
    return work.length > work.facts.options.kernels.short


def _space(work: Work) -> Space:
    space = by_thread.space(work)
    return space if work.fold is None else {**space, "parts": (0, 1)}


def _build(work: Work, values: Values) -> PrimFunc:
    """With ``parts``, a long sum is a sum of partial sums."""
    if work.fold is not None and work.facts.target.in_turn:
        work = replace(work, facts=replace(work.facts, nest=work.lanes))
    if work.fold is None or not values["parts"]:
        return by_thread.build(work, values)
    return by_thread.build(work, values, serial.in_parts(work.facts, work.fold))


RECIPE = Recipe("serial", _fit, _default, _space, by_thread.block, _build)
