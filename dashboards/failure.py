"""How a request to the API failed."""

from __future__ import annotations

import httpx


class ApiFailure(Exception):
    """The API returned an error or could not be reached (status 0)."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", field: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint
        self.field = field
        """The parameter or body field that is wrong."""


def failure_of(response: httpx.Response) -> ApiFailure:
    """The failure described by an error response, or by its status if the body has another shape."""
    try:
        error = response.json()["error"]
        return ApiFailure(
            response.status_code,
            str(error.get("code")),
            str(error.get("message")),
            str(error.get("hint") or ""),
            str(error.get("field") or ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ApiFailure(response.status_code, "error", f"The API responded with status {response.status_code}.")
