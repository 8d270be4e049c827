"""A first look at a fleet: what was avoidable, whose it was, and what to do, without any configuration."""
