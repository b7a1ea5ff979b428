"""``python -m pertdbg``."""

import sys

if not getattr(sys.flags, "safe_path", False):
    # Python put the current folder first: a `uuid.py` there must not take the library's place.
    del sys.path[0]

from pertdbg.cli import main

if __name__ == "__main__":
    main()
