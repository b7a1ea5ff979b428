"""Panels: functions from a record (and what is read beside it) to lines of text."""
