"""Parity: the same requests asked of Apache Kafka 3.9 and of Barnabas, and every answer compared.

    python -m parity [--only WORD] [--show]

A scenario is a function that asks a `World`; it runs once against each side and leaves a transcript. What
must differ (ids, ports, the time of day) is replaced by names, the rest is compared field by field, and so
are the bytes that no field accounts for. The differences that are meant are in `allowed.toml`, each with its
reason; one that is not there fails the run, and so does one that is there and no longer occurs.
"""
