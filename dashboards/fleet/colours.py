"""What the colour of a GPU on a drawing can show: its owner, what its time was, free or held, faults, temperature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.shell.theme import BUCKET, HATCHED, SEVERITIES, Scheme

MAX_TEAMS = 9
TEAMS: dict[Scheme, tuple[str, ...]] = {
    "light": ("#3B4CC0", "#E08E2B", "#2A9D8F", "#B0306A", "#6AA84F", "#8C6D1F", "#57A0D3", "#7A4FA3", "#C96F5A"),
    "dark": ("#8B97F0", "#F0A54A", "#4FC3B5", "#E06C9F", "#8FCB75", "#C9A94E", "#8CC8F2", "#B48FDC", "#E59A88"),
}
"""Owners have hues of their own: these are not buckets."""
OTHERS: dict[Scheme, str] = {"light": "#7F8C8D", "dark": "#A5B1B2"}
FINE: dict[Scheme, str] = {"light": "#A9D3C2", "dark": "#2F6B57"}
HEAT = ((40.0, "#4575B4"), (60.0, "#91BFDB"), (75.0, "#FEE090"), (85.0, "#FC8D59"))
HOTTEST = "#D73027"
COLOURS = {
    "owner": "Owner",
    "waste": "Waste",
    "free": "Free",
    "health": "Health",
    "heat": "Temperature",
}
"""What the colour of a GPU can show."""


@dataclass(frozen=True)
class Kind:
    """A class of GPUs: its word, its colour, whether it is hatched, and its place in the legend."""

    word: str
    colour: str
    hatched: bool = False
    order: int = 0


def heat_kind(celsius: object) -> Kind | None:
    """The class of a temperature."""
    known = formats.number(celsius)
    if known is None:
        return None
    below = 0
    for order, (limit, colour) in enumerate(HEAT):
        if known < limit:
            word = f"below {limit:.0f} °C" if not order else f"{below} to {limit:.0f} °C"
            return Kind(word, colour, False, order)
        below = int(limit)
    return Kind(f"{below} °C and more", HOTTEST, False, len(HEAT))


def kinds(data: Row, colour: str, scheme: Scheme) -> Callable[[Row, int], Kind]:
    """The class of each GPU in this colouring."""
    unknown = Kind("Not measured", BUCKET[HATCHED].colour(scheme), True, 90)
    states = {
        "free": Kind("Free", BUCKET["schedulable"].colour(scheme), False, 70),
        "stranded": Kind("Free, of no use to most requests", BUCKET["stranded"].colour(scheme), False, 71),
        "partitioned": Kind("MIG slices, none held", BUCKET["mig_remainder"].colour(scheme), False, 72),
        "out_of_service": Kind("Out of service", BUCKET["out_of_service"].colour(scheme), False, 80),
        "other": Kind("Not your teams' (not shown)", OTHERS[scheme], True, 95),
    }
    if colour == "waste":
        return _by_waste(scheme, states, unknown)
    if colour == "health":
        return _by_health(data, scheme, states)
    if colour == "heat":
        return lambda node, n: (
            states["other"] if node["state"][n] == "other" else heat_kind(node["celsius"][n]) or unknown
        )
    if colour == "free":
        held = Kind("Held", FINE[scheme], False, 60)
        return lambda node, n: states.get(node["state"][n], held)
    return _by_owner(data, scheme, states)


def _by_owner(data: Row, scheme: Scheme, states: Mapping[str, Kind]) -> Callable[[Row, int], Kind]:
    teams: list[str] = data.get("teams") or []
    sizes = Counter(team for node in data.get("nodes") or [] for team in node["team"] if team is not None)
    largest = sorted((team for team, _ in sizes.most_common(MAX_TEAMS)), key=lambda team: teams[team])
    kinds = {
        team: Kind(formats.clip(formats.owner(teams[team]), 30), TEAMS[scheme][place], False, 0)
        for place, team in enumerate(largest)
    }
    rest = Kind("Other teams", OTHERS[scheme], False, 50)
    nobody = Kind("Held, team unknown", OTHERS[scheme], False, 51)

    def kind(node: Row, n: int) -> Kind:
        if node["state"][n] != "held":
            return states.get(node["state"][n], nobody)
        team = node["team"][n]
        return nobody if team is None else kinds.get(team, rest)

    return kind


def _by_waste(scheme: Scheme, states: Mapping[str, Kind], unknown: Kind) -> Callable[[Row, int], Kind]:
    kinds = {
        name: Kind(bucket.word, bucket.colour(scheme), name == HATCHED, order)
        for order, (name, bucket) in enumerate(BUCKET.items())
    }

    def kind(node: Row, n: int) -> Kind:
        state = node["state"][n]
        if state in ("out_of_service", "other"):
            return states[state]
        return kinds.get(str(node["bucket"][n]), unknown)

    return kind


def _by_health(data: Row, scheme: Scheme, states: Mapping[str, Kind]) -> Callable[[Row, int], Kind]:
    severities = {
        name: Kind(f"{name.capitalize()} fault", colour, False, order)
        for order, (name, colour) in enumerate(SEVERITIES.items())
    }
    fine = Kind("No fault found", FINE[scheme], False, 60)
    findings: list[Row] = data.get("findings") or []

    def kind(node: Row, n: int) -> Kind:
        if node["state"][n] in ("out_of_service", "other"):
            return states[node["state"][n]]
        fault = node["fault"][n]
        return fine if fault is None else severities.get(str(findings[fault]["severity"]), severities["info"])

    return kind


def ink_on(colour: str) -> str:
    """Dark or light text, whichever reads better on a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    light = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return "#14191C" if 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.2 else "#FFFFFF"
