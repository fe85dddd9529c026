"""The CPU kernels, a C library of our own: `library.py` finds and calls it, the C files beside it are shared.

Each operation has its kernels in C in its own folder. hatch_build.py compiles every file once per level of
instructions; the library has no Python in it, so one build serves every version of Python.
"""
