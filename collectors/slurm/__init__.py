"""Slurm as a source: files, commands, slurmrestd."""
