"""Elements whose operands are read where the loops say: a thread each, or for each four."""

from didyma.codegen.schedule.recipes.by_thread import straight

RECIPE = straight("pointwise")
