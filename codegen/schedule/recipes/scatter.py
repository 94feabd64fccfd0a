"""Elements that are written where memory says: a thread for each update."""

from didyma.codegen.schedule.recipes.by_thread import straight

RECIPE = straight("scatter")
