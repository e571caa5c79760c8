"""A world in one process: brokers, clients, network, disks, store and time, all decided by one seed.

What is real and what is simulated
----------------------------------
::

    AsyncProducer, AsyncConsumer, AsyncAdmin   real, unchanged            }
    BrokerNode: handlers, replicas, logs,      real, unchanged            }  a Process each
    controller, registration, recovery         real, unchanged            }
    Server, connections, NetworkClient         real, unchanged            }
    ------------------------------------------------------------------------------------
    asyncio event loop                         SimulatedLoop       time jumps to the next timer
    time.monotonic, time.time, socket.socket   system              while a world runs
    TCP                                        SimulatedNetwork    delays, cuts, half-open
    filesystem                                 SimulatedFilesystem torn, unsynced, full, failing
    metadata store                             MemoryEnsemble      sessions end with their process
    child process, sync thread                 machine             in place, later

Theory of operation
-------------------
Everything that happens is a callback of one loop, and everything that is random comes from generators
that the seed makes. So a seed is a whole history: the same seed gives the same trace, event for event, in any
process on any machine. Nothing real is waited for; an hour without events takes no time.

A `World` has machines and the network between them. A `Machine` has a disk that outlives its broker; it may
be stopped, killed between any two operations on the disk, or lose its power. A `Scenario` sends producers,
consumers and faults into a world, ends all faults, reads everything back and gives the `History` to the
checker. ``python -m barnabas.testing.simulate --seed N`` runs one and says what it found.
"""
