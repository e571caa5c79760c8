"""Groups, their members and their offsets (``kafka.coordinator.group``, ``o.a.k.coordinator.group``).

Theory of operation
-------------------
Every group belongs to one partition of ``__consumer_offsets``, chosen by the hash of its name; the broker
that leads the partition coordinates the group. What it must remember it writes there, and whoever leads next
reads it back. So there are these storeys:

``group_coordinator``   the face that request handlers call: finds the shard of a group, or says why not
``shards``, ``shard``     the partitions this broker leads: elected, loading, led; in each its groups and offsets
``classic``             groups whose members agree among themselves (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)
``consumer``            groups that the coordinator assigns partitions to (KIP-848, ConsumerGroupHeartbeat)
``offsets``             commits, fetches and expiry; the same for both kinds of groups
``journal``             how records get into a partition (``partition_journal``)
``loading``             how they get out of it again: ``decoding`` takes bytes apart, ``replay`` puts state together

Nothing here suspends. An operation that ends later (a parked JoinGroup, a commit that waits for the ISR)
returns a `Pending`. An operation that is refused raises `KafkaError`, and then nothing has changed.

The rule of writing: plan, append, apply. Records are made from the state as it is, without touching it; they
are appended, which may raise, and then nothing happened; only then the state follows, and the answer goes out
when the replicas have the records. Loading applies the same records through the same functions.
"""
