"""The rules, one family a file. Importing this registers them all, in this order."""

from pertdbg.findings.rules import (
    backward,  # noqa: F401
    delta,  # noqa: F401
    effect,  # noqa: F401
    gradient,  # noqa: F401
    graph,  # noqa: F401
    passes,  # noqa: F401
    shape,  # noqa: F401
    storage,  # noqa: F401
    written,  # noqa: F401
)
