"""From records to hours: every GPU-second has one bucket and one owner."""
