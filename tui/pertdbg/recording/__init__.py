"""Recordings: the file of records that the target writes and everyone else reads."""

from __future__ import annotations

from pertdbg.recording.copy import copy_recording, fold
from pertdbg.recording.parts import HeatMap, LayerSource, Mark

__all__ = ["HeatMap", "LayerSource", "Mark", "copy_recording", "fold"]
