"""The words of a pipeline's file: `settings` reads it, each section has its module, `section` refuses keys
that no module asks for. Neither Spark nor a broker is asked here.
"""
