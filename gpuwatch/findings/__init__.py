"""Findings: evaluating rules, thresholds, custom rules, owner actions."""
