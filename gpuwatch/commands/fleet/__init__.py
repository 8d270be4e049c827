"""Commands and starts of a fleet of processes: the lake, its clusters, and processes that wait for a lease."""
