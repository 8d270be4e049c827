"""Commands that advise: what fits now, which purchase or place pays, and how a rule would have done on past data."""
