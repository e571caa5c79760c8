"""From rows to a table, batch by batch: `staging` has the executors write files, `sink` hands them to the
table, `checkpoint` reads what Spark keeps of the query.
"""
