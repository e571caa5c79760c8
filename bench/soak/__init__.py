"""Clients and brokers for as long as one likes: `python -m bench.soak`."""
