"""A partition's log on disk, byte for byte as Kafka 3.9 lays it out, and the directories that hold them."""
