"""Choices of a Primitive function, and the choosers that pick one of them."""

from didyma.codegen.select.cache import Cache as Cache
from didyma.codegen.select.choice import Choice as Choice
from didyma.codegen.select.choosers import Chooser as Chooser
from didyma.codegen.select.choosers import Heuristic as Heuristic
from didyma.codegen.select.choosers import Pinned as Pinned
from didyma.codegen.select.choosers import Tuned as Tuned
