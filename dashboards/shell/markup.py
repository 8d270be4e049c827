"""A laid-out page as HTML, which a browser shows before it has loaded any script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from dash.development.base_component import Component

HTML, CORE = "dash_html_components", "dash_core_components"
NAMES = {"className": "class", "htmlFor": "for", "tabIndex": "tabindex", "colSpan": "colspan", "rowSpan": "rowspan"}
SHOWN = frozenset({"title", "href", "role", "open", "scope", "target", "rel", "lang", "download", "width", "height"})
"""Attributes that are written under their own name. No others are: ids would be there twice once the scripts have run."""
EMPTY = frozenset({"br", "hr", "img", "wbr"})
NOT_YET = frozenset({"button", "input", "select", "textarea", "form"})
"""What does nothing without its script."""
SCHEMES = re.compile(r"(https?:|mailto:|[/#?])", re.IGNORECASE)


class Markup(str):
    """HTML. As a child of a component it is not escaped again."""


def markup(node: Any) -> Markup:
    """The HTML of a component with all below it. What only a script can draw, such as a chart, is an empty box of its size."""
    return Markup("".join(_pieces(node)))


def _pieces(node: Any) -> Iterator[str]:
    if node is None or isinstance(node, bool):
        return
    if isinstance(node, Markup):
        yield node
    elif isinstance(node, list | tuple):
        for one in node:
            yield from _pieces(one)
    elif not isinstance(node, Component):
        yield escape(str(node))
    else:
        plain: dict[str, Any] = node.to_plotly_json()  # type: ignore[no-untyped-call]
        yield from _element(plain)


def _element(plain: Mapping[str, Any]) -> Iterator[str]:
    kind, props = plain["type"], plain["props"]
    tag = _tag(plain["namespace"], kind)
    if tag is None:
        if "style" in props:
            yield f"<div{_attributes('div', {'style': props['style']})}></div>"
        return
    known = dict(props)
    if tag in NOT_YET:
        known["inert"] = True
    yield f"<{'div' if tag == 'form' else tag}{_attributes(tag, known)}>"
    if tag not in EMPTY:
        yield from _pieces(props.get("children"))
        yield f"</{'div' if tag == 'form' else tag}>"


def _tag(namespace: str, kind: str) -> str | None:
    """The element of a component; None for one that only its script can draw."""
    if namespace == HTML:
        return {"MapEl": "map", "ObjectEl": "object"}.get(kind, kind.lower())
    return "a" if (namespace, kind) == (CORE, "Link") else None


def _attributes(tag: str, props: Mapping[str, Any]) -> str:
    found = []
    for name, value in props.items():
        if value is None or value is False:
            continue
        if name == "style":
            found.append(("style", _style(value)))
        elif name == "href":
            if SCHEMES.match(str(value)):
                found.append(("href", str(value)))
        elif name in NAMES:
            found.append((NAMES[name], str(value)))
        elif name in SHOWN or name in ("inert", "hidden") or name.startswith("aria-"):
            found.append((name, "" if value is True else str(value)))
    return "".join(f' {name}="{escape(value, quote=True)}"' for name, value in found)


def _style(style: Mapping[str, Any]) -> str:
    """`{"minHeight": "2px"}` as CSS."""
    parts = []
    for name, value in style.items():
        dashed = name if name.startswith("--") else re.sub("([A-Z])", r"-\1", name).lower()
        parts.append(f"{dashed}:{value}".replace(";", ""))
    return ";".join(parts)
