"""Clients side by side: `python -m bench.clients`."""
