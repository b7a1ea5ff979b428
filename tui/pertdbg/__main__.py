"""``python -m pertdbg``."""

from pertdbg.cli import main

if __name__ == "__main__":
    main()
