"""Where GPUs are, what links them, and how well jobs were placed."""
