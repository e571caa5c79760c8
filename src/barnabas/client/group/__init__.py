"""A consumer's membership in a group: joining, heartbeats, rebalances, committed offsets.

There are two protocols, and one face of them for the consumer: `member`. In a classic group the members
divide the partitions: `coordinator` drives it between a consumer's polls, and is the page to begin with;
`membership` is the state machine under it, without I/O; `assignment` divides partitions when this member
leads; `heartbeat` keeps the member alive. In a group of the protocol ``consumer`` (KIP-848) the coordinator
divides: `consumer_member` drives, `consumer_membership` is the machine. Both share `commits`, which keeps
offsets at the coordinator, `auto_commit`, `subscribed_topics` and `listeners`.
"""
