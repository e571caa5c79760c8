"""Measurements. `python -m bench` puts Apache Kafka 3.9 and Barnabas side by side."""
