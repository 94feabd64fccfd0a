"""The reference: what a tensor program means, at every level.

| folder | says |
|---|---|
| ``ir`` | what programs are: graphs, loops, lines, the sizes in them, and their text |
| ``ops`` | what each op means: type, value at NaN and elsewhere, error bar, loop rule |
| ``verify`` | which laws programs obey, such as when two values may share memory (``sharing``) |
| ``interp`` | how programs run, such as what a barrier does (``loop``) |
"""
