"""Side-by-side measurements; they never assert a time."""
