"""Calendar: when each device is in use, and the earliest time at which a job of k devices fits."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable

from gpuwatch.simulate.fleet import Device, Node


class Calendar:
    """Exclusive bookings of devices in whole seconds, half-open."""

    def __init__(self, window_s: int) -> None:
        self.window_s = window_s
        self._taken: dict[str, list[tuple[int, int]]] = {}

    def is_free(self, device: Device, start: int, end: int) -> bool:
        """Whether the device is free in [start, end)."""
        taken = self._taken.get(device.id, [])
        position = bisect_right(taken, (start, 1 << 60))
        before_is_over = position == 0 or taken[position - 1][1] <= start
        return before_is_over and (position == len(taken) or taken[position][0] >= end)

    def book(self, devices: tuple[Device, ...], start: int, end: int) -> None:
        """Reserves the devices for [start, end); raises ValueError if one is already reserved."""
        for device in devices:
            if not self.is_free(device, start, end):
                raise ValueError(f"{device.id} is taken within [{start}, {end})")
            insort(self._taken.setdefault(device.id, []), (start, end))

    def free_seconds(self, node: Node) -> int:
        """Free device-seconds of the node's exported devices."""
        taken = sum(end - start for d in node.devices for start, end in self._taken.get(d.id, []) if d.exported)
        return self.window_s * sum(1 for d in node.devices if d.exported) - taken

    def fit(
        self,
        node: Node,
        count: int,
        length: int,
        not_before: int,
        gap: int = 0,
        wanted: Callable[[Device], bool] = lambda device: True,
    ) -> tuple[int, tuple[Device, ...]] | None:
        """(start, devices) of the earliest slot of `length` seconds on `count` devices, lowest index first.

        Starts at `not_before`, or `gap` seconds after something ends; None where it would start past the window.
        """
        devices = [device for device in node.devices if device.exported and wanted(device)]
        if len(devices) < count:
            return None
        ends = {end + gap for d in devices for _, end in self._taken.get(d.id, []) if end + gap > not_before}
        for start in sorted({not_before} | ends):
            if start >= self.window_s:
                return None
            free = [device for device in devices if self.is_free(device, start, start + length)]
            if len(free) >= count:
                return start, tuple(free[:count])
        return None
