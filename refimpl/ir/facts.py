"""What an attribute statement of a loop program may say of its body."""

from __future__ import annotations

FLUSHED = ("exp", "exp2")  # functions whose least results may be 0 where sums lose them
COPIES = ("begin", "end")  # of stores that come while a thread goes on
CACHED = ("pass",)  # of what need not stay in a cache
WAITED = ("stores",)  # what alone a barrier of a cluster waits for
# The keys, and the types of their values.
STMT_ATTRS: dict[str, type] = {
    "remark": str,  # a comment in kernel text
    "unroll": int,  # how many iterations of the serial loop that is the body are written out
    "flush": str,  # a function of whose results those below 2**-126 may be 0
    "cache": str,  # "pass" if what it touches in device memory is not soon touched again
    "waits": str,  # "stores" if its barrier waits for no more than its stores to other blocks
    "copies": str,  # "begin" if its stores may come while the thread goes on, "end" if they have
}
