"""A Kafka for tests: brokers of this process, faults that are planted in them, and what is to be seen inside.

::

    from barnabas.testing import Fault, Kafka

    with Kafka() as kafka:
        topic = kafka.create_topic()
        fault = kafka.plant(Fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", count=1))
        program_under_test(kafka.bootstrap_servers)
        fault.wait()
        assert [record.value for record in kafka.records(topic)] == [b"once"]

Who owns what
-------------
- `cluster.Kafka` owns the thread with its event loop, the folder of the data and the brokers on that loop
  (`running.RunningBroker`); each call of a test is carried over to the loop.
- `fault.Fault` is a value: which requests, when, and what becomes of them. `planted.PlantedFaults` owns those
  that are planted, counts what they have hit, and is asked by the loop of the brokers and by the tests'
  threads.
- `faulty.FaultyApis` stands between the table of APIs and the handlers (`node.environment.Environment.apis`).
  `portions` cuts a request into what a fault hits and the rest, so that only what it hits fails and
  everything else is served by the real handler.
- `full_disk.FillableDisk` is the disk of a broker; a test may fill it.
- `clock.MovableClock` is the time of all brokers; a test may move it on.
- `control` is the same over HTTP, for a broker in a process of its own, which `remote_control` makes.
- `inspection` reads what brokers keep: records, groups, znodes.
"""
