"""The four places where a perturbation can be observed: the seams.

`pertdbg.agent.watch` wraps a class's method, `gradients` stands at torch's autograd engine,
`local` follows the locals of a function, and `module` replaces a function of a module. What they
share, from counting to the finished record, is `calls`.
"""
