"""Groups, their members and their offsets (``kafka.coordinator.group``, ``o.a.k.coordinator.group``).

Theory of operation
-------------------
Every group belongs to one partition of ``__consumer_offsets``, chosen by the hash of its name; the broker
that leads the partition coordinates the group. The state of its groups is written to the partition, and the
next leader reads it back. The layers:

``group_coordinator``   the face that request handlers call: finds the shard of a group, or says why not
``classic``             groups whose members agree among themselves (JoinGroup, SyncGroup, Heartbeat,
                        LeaveGroup)
``consumer``            groups that the coordinator assigns partitions to (KIP-848, ConsumerGroupHeartbeat)
``offsets``             commits, fetches and expiry; the same for both kinds of groups
``state_machine``       what the records of the topic mean: one implementation of the runtime's port
``shard``               the groups of one partition and what they committed
``runtime``             elections, loading, writing: what every coordinator does with its topic, and the rule
                        of writing

Nothing here suspends. An operation that ends later (a parked JoinGroup, a commit that waits for the ISR)
returns a `Pending`. An operation that is refused raises `KafkaError`, and then nothing has changed.
"""
