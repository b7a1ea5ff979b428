"""Ablation: a scenario run again without a guard, in a process of its own, and compared."""
