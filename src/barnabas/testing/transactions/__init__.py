"""Transactions over the model of replication: real coordinators, markers, verification and groups.

============  ==========================================================================================
`broker`      a broker of the model of replication with its two coordinators and the handlers of clients
`calls`       the way of markers and verifications between brokers: lost, late and doubled
`producers`   transactional ids: producers that copy, abort, vanish and come back as zombies
`readers`     consumers of committed records, and of committed offsets
`judge`       what may never be: each transaction is there as a whole or not at all
`log_walk`    what a partition's batches and markers say, decoded without the broker's own bookkeeping
`rare`        which rare states a history has come to
`scenario`    one seed, from an empty cluster through faults to a verdict
============  ==========================================================================================

A producer of transaction version 0 that has not had an answer takes a new epoch before its next transaction.
That version cannot tell a request of the last transaction that comes late from one of the present transaction
while both have one epoch (`docs/transactions.md`); all else must hold however late, doubled or lost the
requests are. In version 2 all of it must hold.
"""
