"""What the cluster agrees on:
the metadata store, the znodes in it, the controller, placement, the metadata cache.
"""
