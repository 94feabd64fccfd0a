"""Recipes: ways to schedule a loop nest, one file a class.

A recipe says how well it suits a nest and which values its parameters may take there, and makes the
kernel of any of these points.  The model ranks all points of all recipes without running them.
"""

from didyma.codegen.schedule.recipes.point import Point as Point
from didyma.codegen.schedule.recipes.point import parse as parse
from didyma.codegen.schedule.recipes.point import show as show
