"""A mail server, its sender and recipients, as written in gpuwatch.toml and the API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


def mail_of(item: Mapping[str, Any], known: Mail | None, guard: Guard, problems: list[str]) -> Mail:
    """The mail settings of a channel; wrong ones are added to `problems`.

    Absent settings keep their value, except that the password must be given again for another host, port or user:
    otherwise whoever may edit the channel could have it sent to another server.
    """
    before = {} if known is None else {**known.public(), "password": known.password}
    given = {**{name: before.get(name) for name in FIELDS}, **{n: v for n, v in item.items() if n in FIELDS}}

    def check(name: str, right: bool, words: str) -> None:
        if not right:
            problems.append(f"{name} must be {words}")

    security = given["security"] or "starttls"
    check("security", security in SECURITIES, f"one of {', '.join(SECURITIES)}")
    host = given["host"]
    named = isinstance(host, str) and _HOST.fullmatch(host) is not None
    check("host", named, "the name of a mail server, such as smtp.example.com")
    port = given["port"] if given["port"] is not None else PORTS.get(str(security), 587)
    check("port", isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65_536, "a port from 1 to 65535")
    check("from", is_address(given["from"]), "an address such as gpuwatch@example.com")
    to = given["to"] or []
    listed = isinstance(to, Sequence) and not isinstance(to, str) and len(to) <= MAX_RECIPIENTS
    check(
        "to",
        listed and all(map(is_address, to)),
        f"a list of at most {MAX_RECIPIENTS} addresses; [] where a card has them",
    )
    for name in ("user", "password"):
        value = given[name]
        right = value is None or (isinstance(value, str) and 0 < len(value) <= MAX_WORD and value.isprintable())
        check(name, right, f"at most {MAX_WORD} printable characters, or absent")
    check("password", given["user"] is None or given["password"] is not None, "given where a user is")
    if named:
        try:
            guard.check_host(str(host), security != "none")
        except UsageError as error:
            problems.append(str(error))
    if problems:
        return Mail("", 0, "starttls", "", ())
    mail = Mail(host, port, security, given["from"], tuple(to), given["user"], given["password"])
    if known is None or known.password is None or "password" in item:
        return mail
    if (known.host.lower(), known.port, known.user) != (mail.host.lower(), mail.port, mail.user):
        problems.append("password must be given again where host, port or user changes")
        return replace(mail, password=None)
    return mail
