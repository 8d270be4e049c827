"""Targets of a Kubernetes service: its ready endpoints, with their nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gpuwatch.collectors.dcgm.scrape.discovery import FoundTarget
from gpuwatch.collectors.kubernetes.access import access_options
from gpuwatch.collectors.kubernetes.client import Client
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.errors import SourceUnreachable

GROUP = "/apis/discovery.k8s.io/v1"
SERVICE = "kubernetes.io/service-name"
"""The label of a slice with its service."""
PORTS = ("metrics", "gpu-metrics")
"""Names of the exporter's port in common charts."""
PAGE_SIZE = 500
MAX_TARGETS = 20_000

Object = Mapping[str, Any]


class Endpoints:
    """Endpoint slices of one service, or of the services of a label selector."""

    def __init__(self, table: Mapping[str, Any], where: str, problems: list[str]) -> None:
        """Reads the options; problems are added to `problems`."""
        options = Options(table, where, problems)
        self._namespace = options.text("namespace")
        self._service = options.text("service")
        selector = options.text("selector")
        self._port = options.text("port")
        self._scheme = options.text("scheme", "http")
        self._path = options.text("path", "/metrics")
        self._access = access_options(options, os.environ)
        options.finish()
        if bool(self._service) == bool(selector):
            options.wrong("service", 'give service = "dcgm-exporter", or selector = "app=dcgm-exporter"')
        if self._scheme not in ("http", "https"):
            options.wrong("scheme", "must be http or https")
        selector = selector or f"{SERVICE}={self._service}"
        place = f"/namespaces/{quote(self._namespace, safe='')}" if self._namespace else ""
        self._collection = f"{GROUP}{place}/endpointslices?labelSelector={quote(selector, safe='')}"
        self.shown = f"kubernetes {self._namespace or '*'}/{selector}"

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        """The endpoints that are ready. Raises SourceUnreachable."""
        slices: list[Object] = []
        async with Client(self._access) as client:
            async for items, _ in client.pages(self._collection, PAGE_SIZE):
                slices += [item for item in items if self._is_selected(item)]
                if len(slices) > MAX_TARGETS:
                    raise SourceUnreachable(
                        f"more than {MAX_TARGETS} endpoint slices; name the service and its namespace"
                    )
        places = list(dict(self._places(slices)).values())
        problems = [] if slices else ["no endpoint slice; check namespace and service"]
        if slices and not places and any(True for _ in _ready(slices)):
            problems.append(f"no port {self._port or ' or '.join(PORTS)}; give port")
        return places[:MAX_TARGETS], problems

    def _is_selected(self, item: Object) -> bool:
        labels = _object(_object(item.get("metadata")).get("labels"))
        return not self._service or labels.get(SERVICE) == self._service

    def _places(self, slices: Sequence[Object]) -> Iterator[tuple[str, FoundTarget]]:
        """Targets by pod: a pod with IPv4 and IPv6 addresses is one target, at its IPv4 address."""
        for endpoint_slice, endpoint in _ready(sorted(slices, key=lambda item: item.get("addressType") == "IPv4")):
            if (port := self._port_of(endpoint_slice)) is None:
                continue
            address = str(endpoint["addresses"][0])
            host = f"[{address}]" if ":" in address else address
            node = endpoint.get("nodeName")
            key = str(_object(endpoint.get("targetRef")).get("uid") or f"{address}:{port}")
            yield key, FoundTarget(f"{self._scheme}://{host}:{port}{self._path}", {"node": str(node)} if node else {})

    def _port_of(self, endpoint_slice: Object) -> int | None:
        listed = endpoint_slice.get("ports")
        ports = [port for port in listed if isinstance(port, dict)] if isinstance(listed, list) else []
        numbers = {str(port.get("name") or ""): port.get("port") for port in ports}
        if self._port.isdigit():
            return int(self._port)
        for name in (self._port,) if self._port else PORTS:
            if isinstance(number := numbers.get(name), int):
                return number
        only = next(iter(numbers.values()), None) if len(numbers) == 1 and not self._port else None
        return only if isinstance(only, int) else None


def _ready(slices: Sequence[Object]) -> Iterator[tuple[Object, Object]]:
    """Endpoints that are ready, or have no such condition, with their slice."""
    for endpoint_slice in slices:
        listed = endpoint_slice.get("endpoints")
        for endpoint in listed if isinstance(listed, list) else ():
            good = isinstance(endpoint, dict) and isinstance(endpoint.get("addresses"), list) and endpoint["addresses"]
            if good and _object(endpoint.get("conditions")).get("ready") is not False:
                yield endpoint_slice, endpoint


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}
