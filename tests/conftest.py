"""What all tests have in common: Python looks for cyclic garbage seldom."""

from __future__ import annotations

import gc


def pytest_configure() -> None:
    """Look for garbage in cycles, of which tests leave little, once per 20,000 new objects.

    And seldom among all, of which modules and collected tests are a large part that stays.
    """
    gc.set_threshold(20_000, 20, 50)
