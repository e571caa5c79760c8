"""What brokers know of the cluster: registrations, topics, configurations, the metadata cache."""
