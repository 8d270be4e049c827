"""A mail server, its sender and recipients, as written in gpuwatch.toml and the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.core.errors import UsageError

SECURITIES = ("starttls", "tls", "none")
"""TLS after STARTTLS, TLS from the first byte, or plain text (for hosts named in allow_private)."""
PORTS = {"starttls": 587, "tls": 465, "none": 25}
FIELDS = ("host", "port", "security", "user", "password", "from", "to")
MAX_RECIPIENTS = 100
MAX_ADDRESS = 254
MAX_WORD = 500

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]{2,45}\]?")
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)


@dataclass(frozen=True)
class Mail:
    """How to send mail. No text made by this class contains the password."""

    host: str
    port: int
    security: str
    sender: str
    to: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def public(self) -> dict[str, Any]:
        """The settings as the API shows them."""
        return {
            "host": self.host,
            "port": self.port,
            "security": self.security,
            "user": self.user,
            "password_set": self.password is not None,
            "from": self.sender,
            "to": list(self.to),
        }

    def kept(self) -> dict[str, Any]:
        """The settings to store, without the secret."""
        return {name: value for name, value in asdict(self).items() if name != "password"}

    @classmethod
    def of(cls, kept: Mapping[str, Any], secret: str) -> Mail:
        """From stored settings and the secret."""
        return cls(**{**kept, "to": tuple(kept["to"])}, password=secret or None)


def is_address(text: object) -> bool:
    """Whether a text is a plain address such as ann@example.com: no name, no quotes, nothing that ends a header."""
    return isinstance(text, str) and len(text) <= MAX_ADDRESS and _ADDRESS.fullmatch(text) is not None


def _is_host(value: object) -> bool:
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536


def _are_recipients(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return len(value) <= MAX_RECIPIENTS and all(map(is_address, value))


def _is_word(value: object) -> bool:
    return value is None or (isinstance(value, str) and 0 < len(value) <= MAX_WORD and value.isprintable())


_CHECKS: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("security", lambda value: value in SECURITIES, f"one of {', '.join(SECURITIES)}"),
    ("host", _is_host, "the name of a mail server, such as smtp.example.com"),
    ("port", _is_port, "a port from 1 to 65535"),
    ("from", is_address, "an address such as gpuwatch@example.com"),
    ("to", _are_recipients, f"a list of at most {MAX_RECIPIENTS} addresses; [] where a card has them"),
    ("user", _is_word, f"at most {MAX_WORD} printable characters, or absent"),
    ("password", _is_word, f"at most {MAX_WORD} printable characters, or absent"),
)
"""Each setting, what it must be, and the end of the sentence "NAME must be ..."."""


def _settings(item: Mapping[str, Any], known: Mail | None) -> dict[str, Any]:
    """Every setting: as given, else as it was, else its default."""
    before = {} if known is None else {**known.public(), "password": known.password}
    given = {name: item.get(name, before.get(name)) for name in FIELDS}
    given["security"] = given["security"] or "starttls"
    given["to"] = given["to"] or []
    if given["port"] is None:
        given["port"] = PORTS.get(str(given["security"]), 587)
    return given


def mail_of(item: Mapping[str, Any], known: Mail | None, guard: Guard, problems: list[str]) -> Mail:
    """The mail settings of a channel; wrong ones are added to `problems`.

    Absent settings keep their value, except that the password must be given again for another host, port or user:
    otherwise whoever may edit the channel could have it sent to another server.
    """
    given = _settings(item, known)
    problems += [f"{name} must be {words}" for name, is_right, words in _CHECKS if not is_right(given[name])]
    if given["user"] is not None and given["password"] is None:
        problems.append("password must be given where a user is")
    if _is_host(given["host"]):
        try:
            guard.check_host(given["host"], given["security"] != "none")
        except UsageError as error:
            problems.append(str(error))
    if problems:
        return Mail("", 0, "starttls", "", ())
    mail = Mail(
        given["host"],
        given["port"],
        given["security"],
        given["from"],
        tuple(given["to"]),
        given["user"],
        given["password"],
    )
    if known is None or known.password is None or "password" in item:
        return mail
    if (known.host.lower(), known.port, known.user) != (mail.host.lower(), mail.port, mail.user):
        problems.append("password must be given again where host, port or user changes")
        return replace(mail, password=None)
    return mail
