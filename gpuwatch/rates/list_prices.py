"""List prices for a first look at a fleet that has no rate card yet. Nobody's own prices: every use names them as list prices."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.rates.card import BEGINNING_US, Rate

SOURCE = "AWS EC2 on-demand, Linux, us-east-1, as of 2026-01-21"
"""Where the prices come from (aws.amazon.com/ec2/pricing/on-demand): an instance's hourly price divided by its GPUs."""

_INSTANCES = (
    ("B200", "p6-b200.48xlarge", "113.9328", 8),
    ("H200", "p5en.48xlarge", "63.296", 8),
    ("H100", "p5.48xlarge", "55.04", 8),
    ("A100 80GB", "p4de.24xlarge", "27.44705", 8),
    ("A100", "p4d.24xlarge", "21.957642", 8),
    ("V100", "p3.2xlarge", "3.06", 1),
    ("L40S", "g6e.xlarge", "1.861", 1),
    ("A10G", "g5.xlarge", "1.006", 1),
    ("L4", "g6.xlarge", "0.8048", 1),
    ("T4", "g4dn.xlarge", "0.526", 1),
)
"""Model, the instance with the lowest price per GPU that has it, its hourly price in USD, its GPUs."""


def list_prices() -> tuple[Rate, ...]:
    """On-demand rates in USD per whole GPU-hour, valid at any time; the instance is the SKU. Other models have no price."""
    return tuple(
        Rate(model, "on_demand", (Decimal(price) / gpus).normalize(), BEGINNING_US, sku=f"AWS {instance}")
        for model, instance, price, gpus in _INSTANCES
    )
