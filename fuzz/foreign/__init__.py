"""Random kernels of plain CUDA C, as others write them: see ``fuzz/domains/foreign.py``."""
