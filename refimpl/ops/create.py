"""Create ops."""

from refimpl.ops.spec import Op

ALL: tuple[Op, ...] = ()
