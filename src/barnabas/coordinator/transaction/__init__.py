"""Transactional ids and their transactions (``kafka.coordinator.transaction``).

Theory of operation
-------------------
A transactional id belongs to one partition of ``__transaction_state``, chosen by the hash of its name; the
broker that leads the partition coordinates the id. The coordinator knows who the producer behind the id is (a
producer id and an epoch, which fences earlier producers), which partitions its transaction has written to,
and how the transaction ends. It ends in two steps: the decision is written to ``__transaction_state``
(PrepareCommit or PrepareAbort), then the leaders of all partitions write a marker, and then CompleteCommit or
CompleteAbort is written.

A state counts when the in-sync replicas have it. Until then it is *pending*: other requests for the id are
answered with CONCURRENT_TRANSACTIONS, and an append that fails takes the pending state back. Groups are
different: there the state changes as soon as the record is in the coordinator's own log. A marker that was
sent on the strength of a decision that is only in our own log would survive the loss of the decision.

``states``                   `TransactionState`; which follows which
``metadata``                 `TransactionMetadata`, `Transition`: one id, with its pending state; the epoch
                             rule
``records``                  the records of the topic
``shard``                    `TransactionShard`: the ids of one partition; how a transition is written
``init_producer_id``         who the producer is; fencing (KIP-360)
``add_partitions``           the transaction grows; what a partition's leader asks
``end_transaction``          commit, abort, fence
``markers``                  `TransactionMarkerChannelManager`: the markers that are on their way
``expiry``                   transactions and ids whose time is over
``state_machine``            what the records mean: the runtime's port
``settings``                 the configuration
``transaction_coordinator``  the face for request handlers: its timers, and whose id it is

State lives in four places: an id in its `TransactionMetadata`, the ids of a partition in their
`TransactionShard`, markers in the `TransactionMarkerChannelManager`, timers in the `TransactionCoordinator`.
All other modules are functions over these.

Values have Kafka's nouns (`ProducerIdAndEpoch`, `TxnMarker`); wire messages are the handlers' and the node's
business. An operation that is refused raises `KafkaError`, at once or through its `Pending`; PRODUCER_FENCED
becomes INVALID_PRODUCER_EPOCH for older clients in the handlers.
"""
