"""What is judged of a cluster: each check says its level, its number, its limit and what it is about.

A check whose source was not given (a broker's metrics, ZooKeeper's) says which option would give it; one
whose source does not answer is unknown, and so is the verdict then: what is not known is never good.
"""
