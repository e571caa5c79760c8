"""A model of replication: real controllers, replica managers, fetchers and logs, scripted clients.

============  ==========================================================================================
`wire`        calls between processes: late, overtaken, lost, cut off
`broker`      one machine's broker: controller, registration, partitions, logs on a simulated disk
`follower`    the way of the replica fetchers to their leaders
`clients`     producers and consumers, and the answers that they got
`judge`       what may never be, at each acknowledgement and in the end
`scenario`    one seed, from an empty cluster through faults to a verdict
============  ==========================================================================================

There is no event loop and no socket: everything that waits is a callback on the virtual clock, so a seed takes a fraction of a
second, and the planted bug that loses a record when a leader dies is found by a few of them.
"""
