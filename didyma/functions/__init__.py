"""Functions of tensors: each public name is listed in the ``__all__`` of its module."""
