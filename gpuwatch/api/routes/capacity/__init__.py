"""Routes about capacity, jobs and topology."""
