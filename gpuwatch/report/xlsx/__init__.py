"""Reports as XLSX."""
