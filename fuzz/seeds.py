"""Seeds of campaigns."""

from __future__ import annotations

import secrets

SEEDS = 10**9  # nine digits: short enough to type, and two campaigns rarely share one


def fresh_seed() -> int:
    """Return a seed in [0, ``SEEDS``) that no earlier campaign tells."""
    return secrets.randbelow(SEEDS)
