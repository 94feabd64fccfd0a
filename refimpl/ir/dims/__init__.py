"""The algebra of sizes: how sizes known before launch are written, and all that is decided of them.

A size is an int or a sympy expression over declared symbols (``expression``); as such it is built,
printed, parsed and compared.  It has a value at each binding of its symbols (``evaluation``).  For
every other question it is read into a canonical form, a polynomial over symbols and atoms
(``polynomial``, ``atoms``).  On that form bounds, order, equality and divisibility are decided
(``comparison``, ``prover``, ``quasilinear``): each is proved for every binding, or not known.  The
functions named here are the interface; ``Prover`` answers many questions about one program.
"""

from didyma.refimpl.ir.dims.comparison import always_equal as always_equal
from didyma.refimpl.ir.dims.comparison import at_least as at_least
from didyma.refimpl.ir.dims.comparison import bounds as bounds
from didyma.refimpl.ir.dims.comparison import divisible as divisible
from didyma.refimpl.ir.dims.comparison import exact_quotient as exact_quotient
from didyma.refimpl.ir.dims.comparison import linear_form as linear_form
from didyma.refimpl.ir.dims.comparison import never_negative as never_negative
from didyma.refimpl.ir.dims.comparison import roots as roots
from didyma.refimpl.ir.dims.evaluation import bind as bind
from didyma.refimpl.ir.dims.evaluation import check_ranges as check_ranges
from didyma.refimpl.ir.dims.evaluation import evaluate as evaluate
from didyma.refimpl.ir.dims.evaluation import values as values
from didyma.refimpl.ir.dims.expression import MOST_TERMS as MOST_TERMS
from didyma.refimpl.ir.dims.expression import Dim as Dim
from didyma.refimpl.ir.dims.expression import DimVar as DimVar
from didyma.refimpl.ir.dims.expression import Ranges as Ranges
from didyma.refimpl.ir.dims.expression import add as add
from didyma.refimpl.ir.dims.expression import align as align
from didyma.refimpl.ir.dims.expression import canonical as canonical
from didyma.refimpl.ir.dims.expression import ceildiv as ceildiv
from didyma.refimpl.ir.dims.expression import count_text as count_text
from didyma.refimpl.ir.dims.expression import equal as equal
from didyma.refimpl.ir.dims.expression import floordiv as floordiv
from didyma.refimpl.ir.dims.expression import free as free
from didyma.refimpl.ir.dims.expression import maximum as maximum
from didyma.refimpl.ir.dims.expression import minimum as minimum
from didyma.refimpl.ir.dims.expression import mul as mul
from didyma.refimpl.ir.dims.expression import sub as sub
from didyma.refimpl.ir.dims.expression import substitute as substitute
from didyma.refimpl.ir.dims.expression import symbol as symbol
from didyma.refimpl.ir.dims.expression import terms as terms
from didyma.refimpl.ir.dims.expression import text as text
