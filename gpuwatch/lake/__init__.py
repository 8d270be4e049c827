"""The lake: the ledgers of many cells as DuckLake tables, published by each cell from its own store."""
