"""Watches a call from inside: each line that it runs, and each torch operation within a line."""
