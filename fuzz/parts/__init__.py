"""Parts of a caller's own, such as kernels, external functions and passes, by their definitions."""
