"""Computes days of the ledger again from the samples that a lake keeps, in tasks that read and write files. Only the caller writes to a store."""
