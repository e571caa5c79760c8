"""Transactional ids and their transactions (``kafka.coordinator.transaction``).

Theory of operation
-------------------
A transactional id belongs to one partition of ``__transaction_state``, chosen by the hash of its name; the broker that
leads the partition coordinates the id. The coordinator knows who the producer behind the id is (a producer id and an
epoch, which fences earlier producers), which partitions its transaction has written to, and how the transaction ends.
It ends in two steps: the decision is written to ``__transaction_state`` (PrepareCommit or PrepareAbort), then the leaders
of all partitions write a marker, and then CompleteCommit or CompleteAbort is written.

A state counts when the in-sync replicas have it. Until then it is *pending*: everybody else who asks for the id is told
CONCURRENT_TRANSACTIONS, and an append that fails takes the pending state back. Groups are different: there the state
changes as soon as the record is in the coordinator's own log. A marker that was sent on the strength of a decision that
is only in our own log would survive the loss of the decision.

======================== =================================================== ======================================
module                   what it has                                         the state that it owns
======================== =================================================== ======================================
``states``               `TransactionState`; which follows which, drawn      none
``metadata``             `TransactionMetadata`, `Transition`; the epoch rule one transactional id, its pending state
``records``              the records of the topic                            none
``shard``                `TransactionShard`, and how a transition is written the ids of one partition
``init_producer_id``     who the producer is; fencing (KIP-360)              none
``add_partitions``       the transaction grows; is asked what it has         none
``end_transaction``      commit, abort, fence                                none
``markers``              `TransactionMarkerChannelManager`                   markers that are on their way
``expiry``               transactions and ids whose time is over             none
``state_machine``        what the records mean: the runtime's port           none
``transaction_coordinator`` the face for request handlers                    its timers
======================== =================================================== ======================================

Values have Kafka's nouns (`ProducerIdAndEpoch`, `TxnMarker`); wire messages are the handlers' and the node's business. An
operation that is refused raises `KafkaError`, at once or through its `Pending`; PRODUCER_FENCED becomes
INVALID_PRODUCER_EPOCH for older clients in the handlers.
"""
