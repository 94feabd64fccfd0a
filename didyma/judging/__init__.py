"""The judge of other people's kernels: whether a kernel computes what its specification says.

A kernel is run on engine ``ptx``, with all checks, at sizes and values drawn for its specification,
and its results are compared with the error bars of the reference.
"""
