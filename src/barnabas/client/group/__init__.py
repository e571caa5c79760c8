"""A consumer's membership in a classic group: joining, heartbeats, rebalances, committed offsets.

`coordinator` drives all of it between a consumer's polls, and is the page to begin with. `membership` is the
state machine under it, without I/O; `assignment` divides partitions when this member leads; `heartbeat` keeps
the member alive between polls. `coordinator_link` reaches the group's coordinator, `commits` keeps offsets
there.
"""
