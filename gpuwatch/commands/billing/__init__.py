"""Commands about money: rates, policies, periods, budgets, bills and FOCUS."""
