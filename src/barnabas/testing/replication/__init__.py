"""A model of replication: real controllers, replica managers, fetchers and logs, scripted clients.

============  ==========================================================================================
`wire`        calls between processes: late, overtaken, lost, cut off
`store`       a broker's session on the metadata store: calls and answers take time, and stall
`broker`      one machine's broker: controller, registration, partitions, logs on a simulated disk
`channels`    the ways between the controller and brokers
`follower`    the way of the replica fetchers to their leaders
`clients`     producers and consumers, and the answers that they got
`operator`    reassignments, elections, topics and partitions that come and go
`faults`      what befalls the brokers
`judge`       what may never be, at each write, acknowledgement and read, and in the end
`rare`        which rare states a history has come to
`scenario`    one seed, from an empty cluster through faults to a verdict
============  ==========================================================================================

There is no event loop and no socket: everything that waits is a callback on the virtual clock, so a seed
takes a fraction of a second, and the planted bug that loses a record when a leader dies is found by a few of
them.
"""
