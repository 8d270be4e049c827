"""Models of the channels routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Severity, Shape, Strict


class Channel(Shape):
    name: str
    kind: str
    severity_min: Severity
    enabled: bool


class ChannelItems(Shape):
    items: list[Channel]
    version: str
    next: str | None


class ChannelBody(Shape):
    """The page about alerts lists the fields of each kind; errors name every wrong field."""

    name: str = Field(min_length=1, max_length=64)


class ChannelsBody(Strict):
    items: list[ChannelBody] = Field(max_length=100)


class Sent(Shape):
    ok: bool
