"""The longest value that a connection takes out of a file.

A file can hold a value of a gigabyte, which would be in memory before anybody could look at its
length. SQLite has a limit for that, of each connection, which `sqlite3` offers from Python 3.11.
Before that it is set by SQLite's own function, and tried out.
"""

from __future__ import annotations

import sqlite3
import sys

_LENGTH = 0
"""`SQLITE_LIMIT_LENGTH`."""


def limit_length(connection: sqlite3.Connection, most: int) -> bool:
    """Let a connection refuse longer values than these; say whether it does.

    Args:
        connection: Nothing was read with it yet.
        most: Bytes.
    """
    if hasattr(connection, "setlimit"):  # Python 3.11
        connection.setlimit(_LENGTH, most)
    elif sys.implementation.name == "cpython":
        _call_sqlite(connection, most)
    return _holds(connection, most)


def _call_sqlite(connection: sqlite3.Connection, most: int) -> None:
    """Call `sqlite3_limit` of the library that the module `sqlite3` is linked with."""
    import ctypes

    try:
        library = ctypes.CDLL(getattr(sys.modules["_sqlite3"], "__file__", None))
        function = library.sqlite3_limit
    except (OSError, AttributeError):  # it is linked so that its functions cannot be found
        return
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    function.restype = ctypes.c_int
    # SQLite's handle is the first thing that a connection holds, in all versions up to 3.13.
    handle = ctypes.c_void_p.from_address(id(connection) + object.__basicsize__)
    function(handle, _LENGTH, most)


def _holds(connection: sqlite3.Connection, most: int) -> bool:
    try:
        connection.execute("SELECT length(zeroblob(?))", (most + 1,)).fetchall()
    except sqlite3.DataError:  # string or blob too big
        return True
    return False
