"""The DuckDB database: samples, records, the ledger, retention."""
