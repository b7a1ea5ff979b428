"""pertdbg: a time-travel debugger for adversarial perturbations in PyTorch."""
