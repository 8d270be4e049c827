"""Routes of the service itself: health, channels, audit log, backup."""
