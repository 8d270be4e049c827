"""YuniKorn as a source."""
