"""The quality of the inputs, and how to fix what is missing."""
