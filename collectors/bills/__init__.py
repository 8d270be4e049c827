"""Cloud bills: AWS, Azure, GCP, OCI, FOCUS."""
