"""The same facts as text for people and as data for other tools; without torch or a screen."""
