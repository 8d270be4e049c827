"""What was avoidable: the morning's sentence, first actions, teams, jobs and the trend."""
