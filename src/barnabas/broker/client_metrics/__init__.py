"""Metrics that clients push (KIP-714): who is asked for what, and what becomes of it.

`manager` is the one owner of the state of clients, `subscriptions` says which metrics a client is asked for,
`otlp` reads what it sends, and `receiver` keeps that for the metrics endpoint.
"""
