"""The brokers of one machine, each a process of its own, under one parent."""
