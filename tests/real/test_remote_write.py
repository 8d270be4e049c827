"""A real Prometheus writes to a gpuwatch that is often too busy, and is killed and started again: nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuwatch.store import Store
from tests.real.test_prometheus import _sent, free_port, get, page, running, stored, total, until
from tests.real.test_prometheus import SCRAPES, Exporter, exporter  # noqa: F401 - exporter is a fixture
