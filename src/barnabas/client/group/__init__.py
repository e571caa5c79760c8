"""A consumer's membership in a classic group: joining, heartbeats, rebalances, committed offsets.

`membership` is the machine and `heartbeat` its timing, both without I/O; `leader` divides partitions when
this member leads. `coordinator_link` reaches the group's coordinator, `commits` keeps offsets there, and
`member` drives all of it between a consumer's polls.
"""
