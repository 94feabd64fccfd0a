"""Sizes known before launch, and all that is decided about them.

A size is an int or a sympy expression over declared symbols (``expression``), which parses, prints
and is compared by sympy's rules.  What holds of sizes is decided here and nowhere else in Didyma:
their values (``evaluation``), their bounds (``intervals``), whether one is equal to another, at
least another, or a multiple of a number (``comparison``, ``prover``).
"""

from didyma.refimpl.ir.dims.comparison import (
    always_equal,
    at_least,
    bounds,
    divisible,
    exact_quotient,
    linear_form,
    never_negative,
    roots,
)
from didyma.refimpl.ir.dims.evaluation import bind, check_ranges, evaluate, values
from didyma.refimpl.ir.dims.expression import (
    MOST_TERMS,
    Dim,
    DimVar,
    Ranges,
    add,
    align,
    canonical,
    ceildiv,
    count_text,
    equal,
    floordiv,
    free,
    maximum,
    minimum,
    mul,
    sub,
    substitute,
    symbol,
    terms,
    text,
)

__all__ = [
    "MOST_TERMS",
    "Dim",
    "DimVar",
    "Ranges",
    "add",
    "align",
    "always_equal",
    "at_least",
    "bind",
    "bounds",
    "canonical",
    "ceildiv",
    "check_ranges",
    "count_text",
    "divisible",
    "equal",
    "evaluate",
    "exact_quotient",
    "floordiv",
    "free",
    "linear_form",
    "maximum",
    "minimum",
    "mul",
    "never_negative",
    "roots",
    "sub",
    "substitute",
    "symbol",
    "terms",
    "text",
    "values",
]
