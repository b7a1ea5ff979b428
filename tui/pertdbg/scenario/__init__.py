"""Scenario files: loaded, checked whole, and run.

`model`, `load`, `checks`, `expect` and `library` work without torch; `run` and what it uses
perform a scenario in the process that they are called in.
"""
