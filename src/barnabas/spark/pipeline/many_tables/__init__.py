"""One pipeline, many tables: `routes` says how rows name theirs, `named_tables` which there are, and
`routed_sink` writes a batch into all of them. With `topic_tables` each topic has a schema of its own too.
"""
