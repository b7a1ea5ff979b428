"""Widgets: they paint lines and pass on what is clicked; what the lines say is in `panels`."""
