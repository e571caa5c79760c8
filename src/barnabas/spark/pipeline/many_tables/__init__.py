"""One pipeline, many tables: `routes` says how rows name theirs, `named_tables` which there are, `many_sinks`
hold a sink for each. `routed_sink` parts rows by their columns, `topic_tables` records by their topics, which
have a schema of their own each.
"""
