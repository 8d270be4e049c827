"""Building blocks of pages: charts, cards, tables."""
