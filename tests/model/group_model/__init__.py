"""Groups under a model: real coordinators, simulated everything else, decided by one seed.

What is real and what is simulated
----------------------------------
::

    GroupCoordinator, GroupStateMachine, both kinds of groups, offsets   real, unchanged
    codecs of their records, batches, decoding, loader, replay        real, unchanged
    ----------------------------------------------------------------------------------------
    members: classic (eager, cooperative, static), consumer, simple   models of Kafka's clients
    __consumer_offsets                   ReplicatedPartition  one true log, high watermark, elections
    requests and answers                 Wire                 late, or lost
    clock of each broker                 ProcessClock         its timers can be counted, and die with it

A history takes some tens of milliseconds, so thousands of seeds run where whole simulated nodes manage
hundreds. `Observer` judges each answer where the broker gives it: `Generations` for classic groups, `Epochs`
for consumer groups, `Commits` for offsets. `Scenario` judges what can only be seen in the end. ``python
tests/model/run_groups.py --seed N`` runs one history.
"""
