"""Cloud bills compared with the charges."""
