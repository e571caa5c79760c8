"""A folder for ``PYTHONPATH``: with it Spark finds ``format("barnabas")`` by itself."""
