"""Reads loaders in C++ as C++ defines them, and judges programs by what these do."""
