"""What a report reads: the charges, buckets, findings, jobs and slices of a week, and the facts of each report made of them."""
