"""The strategy of Hypothesis that draws cases: apart, so that no compile imports Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from didyma.fuzz.graphs import BYTES, Case, decode

CASES: st.SearchStrategy[Case] = st.binary(min_size=BYTES, max_size=BYTES).map(decode)
