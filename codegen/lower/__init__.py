"""Graph to loops."""

from codegen.lower.function import lower as lower
