"""Modules next to the tests are imported by name, also by worker processes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
