"""The main job, end to end: a year of flights through a broker, a stream, a table and a report.

``barnabas demo`` replays the 336,776 flights that left New York in 2013 into a topic, in the order in which
they were scheduled. A structured-streaming job reads the topic as it fills, joins weather and airlines, keeps
delays by airport and hour, writes a Parquet table and an alerts topic; a batch job then asks which routes
lose most minutes and what the weather has to do with it. Every count is checked against pandas on the same
file. On the way one stream is ended in the middle of a batch and continues from its checkpoint: no row is
lost or counted twice.
"""
