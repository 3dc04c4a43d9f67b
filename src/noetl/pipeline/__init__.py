"""The task pipeline as pure functions: inputs, outcome, policy, directive, next position (PIPE-01).

It stands between `net` and `engine` on the stairs, because two rooms run pipelines: the worker, with tools, and the
engine, for pipelines of nothing but `noop` (DESIGN §3). Neither a tool nor a clock is known here.
"""
