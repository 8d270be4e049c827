"""The lake: the books of many cells as DuckLake tables, published by each cell from its own store."""
