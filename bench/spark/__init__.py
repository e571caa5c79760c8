"""Topics in Spark: our source and sink beside Spark's own Kafka connector, in one session on one broker."""
