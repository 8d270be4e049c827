"""Models of saved views."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwatch.api.schema.common import Strict, Time
from gpuwatch.state.views import ADDRESS_MAX

Address = Annotated[
    str, Field(pattern=r"^/ui/[\x21-\x7e]*$", max_length=ADDRESS_MAX, examples=["/ui/teams?window=7d&team=vision"])
]


class ViewBody(Strict):
    address: Address


class SavedView(Strict):
    name: str
    address: Address
    saved_at: Time


class SavedViews(Strict):
    items: list[SavedView]
