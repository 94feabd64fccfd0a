"""Measure programs: exact counters, times beside other libraries, and records of both."""
