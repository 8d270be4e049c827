"""The pages that benchmarks write."""
