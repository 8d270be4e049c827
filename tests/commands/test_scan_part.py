"""Which phase of a scan a step belongs to."""

from __future__ import annotations

from gpuwatch.commands.scan_source import scan_part


def test_a_scan_is_one_bar_from_reading_to_the_last_rule() -> None:
    part = scan_part()
    steps = [
        (0, 10, "samples of 2026-11-10T00:00"),
        (10, 10, "records of 2026-11-10T00:00"),
        (10, 10, "sealing"),
        (0, 1, "default: who held what"),
        (7, 14, "default: hours"),
        (14, 14, "default: hours"),
        (3, 30, "default: straggler"),
        (0, 1, "other: who held what"),
    ]

    assert [0, 0.5, 0.55, 0.55, 0.74, 0.88, 0.892, 0.892] == [round(part(*one), 3) for one in steps]
