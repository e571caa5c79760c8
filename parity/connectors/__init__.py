"""Spark's official Kafka connector and ours, given the same jobs on Apache Kafka 3.9 and on Barnabas.

    python -m parity.connectors [--jobs a,b] [--brokers kafka,barnabas] [--quick] [--show]

Fifteen jobs read and write topics by `format("kafka")` and by `format("barnabas")` in one session. A job is a
function of a `Connector` that gives back named results: rows in a fixed order, counts, or what an error says.
The official connector on the first broker sets the example; every other pair must give the same. What may
differ is in `differences.toml`, with its reason; an entry that explains nothing any more fails the run.
"""
