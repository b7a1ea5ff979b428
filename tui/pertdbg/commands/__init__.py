"""The commands that need no app: on recordings, on scenarios, and the ablation."""
