"""Elements that are read where memory says, such as rows of a table: a thread each."""

from didyma.codegen.schedule.recipes.by_thread import straight

RECIPE = straight("gather")
