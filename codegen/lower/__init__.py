"""Graph to loops."""

from didyma.codegen.lower.function import lower as lower
