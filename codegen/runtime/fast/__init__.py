"""The engine ``host-fast``: kernels of the CPU by an optimising compiler, on all cores."""
