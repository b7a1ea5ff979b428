"""Screens: the one with the panels, and the dialogs over it."""
