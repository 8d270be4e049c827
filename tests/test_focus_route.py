"""FOCUS over HTTP and on the command line: the file, what is missing beside it, and nothing of other teams."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gpuwatch.focus_columns import columns
from tests.api.api_world import BLUE_WORDS, Api
from tests.api.conftest import *  # noqa: F403  the same fixtures
