"""What a GPU-hour costs: rate cards, exchange rates, commitments, owned hardware, spot prices."""
