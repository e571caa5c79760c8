"""Partitions as this broker plays them: roles, replication state, waiting requests (``kafka.cluster``)."""
