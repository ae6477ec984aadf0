"""What every task does first."""

import subprocess
import sys

SETTLES_ONCE = """
import gc
from penstock.spark.tasks import settle
settle()
settled = gc.get_freeze_count()
assert settled > 0
later = [[] for _ in range(1000)]
settle()
assert gc.get_freeze_count() == settled, "later objects must stay collectable"
"""
LOADS_LITTLE = """
import sys
import penstock.spark.staging
loaded = {"pandas", "adbc_driver_manager"} & set(sys.modules)
assert not loaded, f"each process that writes would spend its time on loading {loaded}"
"""


def test_it_settles_once() -> None:
    subprocess.run([sys.executable, "-c", SETTLES_ONCE], check=True)


def test_a_writing_task_loads_only_what_it_needs() -> None:
    subprocess.run([sys.executable, "-c", LOADS_LITTLE], check=True)
