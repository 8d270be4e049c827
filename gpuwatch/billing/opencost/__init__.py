"""OpenCost's allocation API, computed from the ledger."""
