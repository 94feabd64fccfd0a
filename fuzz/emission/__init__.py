"""Random kernels of expressions and small statements, which judge the writing of CUDA C alone."""
