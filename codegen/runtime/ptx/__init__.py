"""Engine ``ptx``: NVIDIA's virtual instructions run in NumPy, with every check, without a GPU."""
