"""Consumer groups as DataFrames: the data sources ``barnabas-offsets`` and ``barnabas-lag``.

::

    spark.read.format("barnabas-offsets").load("/var/lib/kafka")  # each commit in __consumer_offsets
    spark.read.format("barnabas-lag").option("kafka.bootstrap.servers", "h:9092").load()  # the lag now
    spark.read.format("barnabas-lag").load("/var/lib/kafka")  # the lag at each commit
"""
