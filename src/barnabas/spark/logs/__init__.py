"""Log directories as DataFrames, offline: the data source ``barnabas-log``.

::

    spark.read.format("barnabas-log").load("/var/lib/kafka")  # records, in the columns of the Kafka source
    spark.read.format("barnabas-log").option("view", "batches").load("/var/lib/kafka")
    spark.read.format("barnabas-log").option("view", "segments").load("/var/lib/kafka")

`segments` finds the files and cuts them into tasks, `stretches` reads whole batches out of them and says what
is damaged, `views` makes rows of these, and `source` is Spark's data source. A broker may run on the
directories meanwhile: nothing is written and nothing is locked.
"""
