"""The follower's half of replication: copies partitions from their leaders
(``kafka.server.ReplicaFetcherManager``).

Theory of operation
-------------------
A follower is a client of its leader: it asks from the end of its log on, and appends what it is given as it
is, offsets and leader epochs included. A fetch from offset n tells the leader that everything below n has
arrived, so nothing is asked for before what came is in the log (and synced, where
`log.flush.interval.messages` wants that).

Where the two logs part, the follower cuts its own. Each fetch says the epoch of the follower's last record
(KIP-595). A leader that has no such epoch, or whose epoch ends earlier, answers with the end of the last
epoch that both may have; the follower cuts there (`truncation`) and asks again. Records above the high
watermark may go this way, records below it only after an unclean election.

================  ==============================================  ========================================
what              Kafka's name                                    which state it owns
================  ==============================================  ========================================
`manager`         ``ReplicaFetcherManager``                       the fetchers by (leader, fetcher id), and
                                                                  the partitions that no fetcher could
                                                                  continue
`replica_fetcher` ``ReplicaFetcherThread-F-B``                    which partitions it copies from broker B,
                                                                  under which leader epoch, and which of them
                                                                  wait
`LeaderEndPoint`  ``RemoteLeaderEndPoint``, made in `node`        the fetch session (KIP-227) with broker B
`truncation`      ``getOffsetTruncationState``                    none: it says where to cut
================  ==============================================  ========================================

How far a partition is copied is said by its log alone: there is no second offset that could differ from its
end.

Everything runs on the event loop. There is no thread and no task: a fetcher is one chain of `Pending`, with
one request in flight on a connection of its own. Partitions share it. Its session names a partition only when
something about it changes, so that a thousand idle partitions cost as much as one: an empty request and an
empty answer each `replica.fetch.wait.max.ms`. What came is appended in slices, so that others are served in
between.

LeaderAndIsr decides who follows whom (`replica.state_changes`); it may come at any moment between two slices.
So each answer for a partition is checked against what is copied now: the partition, its leader epoch and the
end of its log.
"""
