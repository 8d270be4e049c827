"""The authority scorecard: who decides in each layer, and what that costs."""
