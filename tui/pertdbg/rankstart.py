"""One rank of a script: ``python -m pertdbg.rankstart``, started by torch's launcher."""

import os
import sys

if not getattr(sys.flags, "safe_path", False):
    # Python put the current folder first: a `uuid.py` there must not take the library's place.
    del sys.path[0]

from pertdbg.errors import PertdbgError
from pertdbg.ranklaunch import VARIABLE, Launch, Place, begin, place_of_this_process


def main() -> None:
    """Become the script, or say in one line why not."""
    try:
        launch = Launch.of(os.environ.pop(VARIABLE))
        begin(launch, place_of_this_process() or Place(0, 1))
    except PertdbgError as error:
        print(f"pertdbg: {error}", file=sys.stderr)  # noqa: T201 - what a person reads
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
