"""Recordings: the file of records that the target writes and everyone else reads."""
