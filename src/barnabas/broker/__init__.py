"""Requests from the wire: who may ask what, and one handler file for each API (``KafkaApis``)."""
