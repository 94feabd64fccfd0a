"""Loops to kernels."""

from codegen.schedule.dispatch import schedule as schedule
