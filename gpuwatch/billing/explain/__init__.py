"""What a charge is made of."""
