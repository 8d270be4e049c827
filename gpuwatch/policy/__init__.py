"""Who pays for what: ownership rules and chargeback policies."""
