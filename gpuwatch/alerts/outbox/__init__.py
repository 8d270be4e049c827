"""Messages waiting for delivery, and their delivery."""
