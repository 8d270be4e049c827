"""Codes of errors and what to do about them, by status."""

from __future__ import annotations

CODES = {
    400: ("bad_request", "correct the request; /docs lists every parameter"),
    401: ("unauthorized", "send Authorization: Bearer TOKEN; gpuwatch token create makes one"),
    403: ("forbidden", "use a token whose scope and teams cover this"),
    404: ("not_found", "check the path; /docs lists every route"),
    405: ("method_not_allowed", "use a method of the Allow header"),
    408: ("timeout", "send the body faster or in smaller pieces"),
    409: ("conflict", "read the current state, then decide"),
    412: ("changed_meanwhile", "read it again, repeat your change on what you read, and send that with its ETag"),
    413: ("too_large", "send smaller pieces"),
    414: ("query_too_long", "use fewer or shorter parameters"),
    415: ("unsupported_media_type", "send a content type that /docs lists for this route"),
    421: ("misdirected", "send it to the process that the message names"),
    422: ("detector_failed", "correct the SQL file of this detector; docs/act/site-detectors.md shows how"),
    429: ("too_many_requests", "wait for the time of the Retry-After header"),
    431: ("headers_too_large", "send fewer or shorter headers"),
    500: ("internal", "this is a fault of gpuwatch; its log has the details"),
    503: ("unavailable", "try again after the time of the Retry-After header"),
}
"""Code and default hint by status."""

TEAM_SCOPE = "team_scope"
"""The code of a 403 for a token bound to teams, where the answer would depend on the rows of others."""

OF_REQUESTS = frozenset(CODES[status][1] for status in (400, 401, 403, 404, 405, 409, 413, 414, 415, 421, 431))
"""Hints for people who write requests; the command line leaves them out."""
