"""The controller: what one broker runs while it is elected (`kafka.controller`)."""
