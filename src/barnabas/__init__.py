"""Barnabas: Apache Kafka's machinery in Python.

This module imports nothing, so that ``import barnabas`` costs next to nothing; each part is imported
from its own folder (``barnabas.client``, ``barnabas.spark``, ``barnabas.node``, ...).
"""

__version__ = "0.1.0"
