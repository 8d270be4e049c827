"""Jobs: what each held, used, cost and wasted."""
