"""What group and transaction coordinators have in common: one shard for each partition
(``CoordinatorRuntime``).

Theory of operation
-------------------
A coordinator keeps its state in the partitions of a compacted topic. The broker that leads a partition has
the state of that partition in memory, as one *shard*. The runtime knows partitions, records and leadership;
what the records mean is the business of a `state_machine.StateMachine`.

``runtime``         which shards are led here: elected -> loading -> led -> resigned
``loading``         reads a partition, on the loop in slices or, if it is big, with the help of a child
                    process
``decoding``        takes batches of bytes apart; runs in that child
``replay``          hands each record that was read to the state machine
``keys``            which partition a key belongs to
``journal``         appends records to the partition and waits for the replicas (``PartitionWriter``)
``session``         the time-out of a member
``state_machine``   the port

The rule of writing: plan, append, apply. Records are made from the state as it is, without touching it. They
are appended, which may raise, and then nothing happened. Only then the state follows, through the functions
that loading uses too, and the answer goes out when the replicas have the records.

The other coordinators of Kafka need no second runtime. The transaction coordinator is a state machine over
``__transaction_state``: its shard holds the transactional ids of one partition, `decode` reads the table
`TRANSACTION_STATE`, `replay` keeps the last value of each id, `loaded` sends the markers of transactions that
were about to end (``TransactionStateManager.loadTransactionsForTxnTopicPartition``), and `unloaded` drops the
queues of markers. Share groups are more record types in `coordinator.state_machine.GroupStateMachine` (types
9 to 15 of ``__consumer_offsets``), and their positions a state machine over ``__share_group_state``
(``ShareCoordinatorShard``). Each gets a `runtime.CoordinatorRuntime` of its own and registers it as a
listener of its topic's leadership.
"""
