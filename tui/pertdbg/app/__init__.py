"""The Textual app: screens, panels and keys. It reads recordings; it never imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pertdbg.app.app import PertdbgApp

__all__ = ["PertdbgApp"]


def __getattr__(name: str) -> Any:
    """Load the app on first use, so that the panels can be drawn without Textual."""
    if name == "PertdbgApp":
        from pertdbg.app.app import PertdbgApp

        return PertdbgApp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
