"""Models of the reports routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwatch.api.schema.common import Strict


class Recipient(Strict):
    team: str = Field(min_length=1, max_length=200, examples=["vision"], description="`*`: the fleet.")
    to: list[Annotated[str, Field(max_length=254)]] = Field(
        min_length=1, max_length=100, examples=[["ann@example.com"]]
    )


class FormatItem(Strict):
    format: str = Field(examples=["xlsx"], description="As `format` of a report takes it.")
    label: str = Field(examples=["Excel"])
    about: str = Field(description="What its files hold.")
    suffix: str = Field(examples=["xlsx"])
    media_type: str
    inline: bool = Field(description="Browsers show it; other formats are downloaded.")


class FormatItems(Strict):
    items: list[FormatItem]
    next: None


class RecipientItems(Strict):
    items: list[Recipient]
    version: int
    next: str | None


class RecipientsBody(Strict):
    items: list[Recipient] = Field(max_length=10_000)
