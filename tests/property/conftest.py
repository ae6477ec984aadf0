"""Says at the end of a run how much these tests did."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "figures":
                    terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {value}")
