"""The algebra of sizes: how sizes known before launch are written, and all that is decided of them.

A size is an int or a sympy expression over declared symbols (``expression``); as such it is built,
printed, parsed and compared.  It has a value at each binding of its symbols (``evaluation``).  For
every other question it is read into a canonical form, a polynomial over symbols and atoms
(``polynomial``, ``atoms``).  On that form bounds, order, equality and divisibility are decided
(``comparison``, ``prover``, ``quasilinear``): each is proved for every binding, or not known.  The
functions named here are the interface; ``Prover`` answers many questions about one program.
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
