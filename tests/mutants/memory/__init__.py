"""Faults of memory planners, as they have happened, planted in ours."""
