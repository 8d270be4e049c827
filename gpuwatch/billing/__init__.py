"""Chargeback: prices, charges, budgets, slices."""
