"""The laws that programs obey, each with an id, and the verifiers that raise it when broken.

| module | verifies |
|---|---|
| ``sizes`` | sizes, at all levels |
| ``graph`` | graphs; ``control`` their control flow and the symbols bound at run time |
| ``loop`` | loop programs and kernels; ``scalars`` their expressions, ``calls`` their calls |
| ``program`` | programs, line by line; the modules below hold the state and the laws of lines |

A program's lines are verified by ``memory`` (what gives bytes or takes them), ``work`` (what reads
and writes them) and ``blocks`` (what binds symbols or holds lines).  They share the ``values`` at
the present line, whose ``state`` branches copy.  ``streams`` orders the work on streams, ``ranges``
compares ranges of bytes, and ``sharing`` says when two values may share memory.
"""
