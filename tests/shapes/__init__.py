"""Loops of our own writing with the same shape as public implementations; see `_shapes.py`.

Each module has ``run(rounds, seen)``. It tells `seen` what it makes and how it moves it, so that
the records can be compared with what the code itself knew.
"""
