"""Messages one by one: what became of each."""
