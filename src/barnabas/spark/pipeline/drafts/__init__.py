"""The first file of a pipeline, drafted from the records of a topic: ``barnabas pipeline init``.

`types` guesses the columns of JSON values, `draft` looks at a topic and says what it holds, `text` writes the
file with its comments. No Spark is started, and nothing but the file is written.
"""
