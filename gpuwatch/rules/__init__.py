"""What a detector is: its record, its registry, and the layers of authority that answer for findings."""
