"""SASL at both ends of a connection: the state machines that carry a mechanism, and the mechanisms."""
