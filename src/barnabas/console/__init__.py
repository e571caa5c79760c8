"""The operations console: pages, a REST interface and a check of the health of Kafka clusters of any vendor.

Who owns what
-------------
- `reading.Observation` is a value with its age, and why there is no newer one. Nothing is shown without.
- `snapshot.ClusterSnapshot` is all that is known of a cluster; a new one replaces it, piece by piece.
- `collector.Collector` asks the brokers for what has become old, in bounded requests. It runs on the thread
  and the loop of its `watched.WatchedCluster`, so that pages never wait for brokers.
- `health` judges a snapshot: each check says its state, its number, its limit and what it is about.
- `views` makes of a snapshot what one page shows, and REST answers: the same values for both.
- `history` keeps samples and changes on the disk; `alerts` judges each sample as it comes.
- `actions` changes clusters: a preview is kept and is what gets executed, once, after it was confirmed by
  name. The audit log has what was begun and what became of it; `web.action_routes.undo` makes a preview of
  its lines.
- `stores` has files of the console's own: settings, logs of lines, clusters that were added.
- `access` says who asks and what they may do: a path without a rule is refused.
- `web.app` puts REST and pages together as an ASGI application; `web.guard` stands before it. Routes of views
  are in `web.routes`, those that change something in the other modules of `web` that end with `_routes`.
"""
