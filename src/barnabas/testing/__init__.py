"""What tests of Barnabas and of programs on it need: simulated disks, clocks, brokers in process."""
