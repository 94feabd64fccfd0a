"""Schedules as data: steps that rewrite a loop program, each decided to be legal."""
