"""Loops to kernels."""

from didyma.codegen.schedule.dispatch import schedule as schedule
