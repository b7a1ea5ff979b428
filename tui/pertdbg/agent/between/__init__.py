"""What happens between the calls: modules that run, backward passes, modes, copies of delta.

`flow` keeps a short journal of it, `modules` and `engine` write that journal, and `summary` turns
the part since a layer's call before into a `pertdbg.between.Between`. All of it is told by
`pertdbg.agent.seams.tracing`, so that no hook and no frame of ours stands in the target.
"""
