"""The `barnabas` command: verbs that take the flags and print the lines of Kafka's own scripts."""
