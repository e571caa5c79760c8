"""One module an API, named as Kafka's key: its request, its response, and the structs they are made of."""
