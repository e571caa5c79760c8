"""How Spark finds ``format("barnabas")`` by itself: with this folder on ``PYTHONPATH``, no session needs a
call of `register`.

Spark imports each module that is named ``pyspark_...`` when a source in Python is first asked for, and takes
its ``DefaultSource``. The folder is not on the path unless somebody puts it there: sessions of
`barnabas.spark` register the source, and more, by themselves.
"""

from barnabas.spark.source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
