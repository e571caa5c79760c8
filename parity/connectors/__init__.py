"""Spark's official Kafka connector and ours, given the same jobs on Apache Kafka and on Barnabas.

Fifteen jobs read and write topics by `format("kafka")` and by `format("barnabas")` in one session. A job is a function of a
`Connector` that gives back named results: rows in a fixed order, counts, or the words of an error. Equal means equal for
each connector on each broker; what may differ is in `differences.toml`, with its reason.
"""
