"""What could start now: free GPUs, job shapes, queues, waiting requests."""
