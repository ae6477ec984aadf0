"""Generate src/penstock/sql/generated/ from the SQL sources; `--check` fails if it is outdated."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

SQL: Final = Path(__file__).resolve().parent.parent / "src" / "penstock" / "sql"
sys.path.insert(0, str(SQL.parent.parent))

from penstock.sql.expand import Expander  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    parser.add_argument("--sql", type=Path, default=SQL, help="the folder with the sources")
    options = parser.parse_args()
    target = options.sql / "generated"
    wanted = Expander(options.sql).generated()
    found = {file.name: file.read_text("utf-8") for file in target.glob("*.sql")}
    stale = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if options.check and stale:
        print(f"out of date: generated/{', '.join(stale)}; run: python tools/generate_sql.py")
        return 1
    if not options.check:
        target.mkdir(exist_ok=True)
        for name in stale:
            if name in wanted:
                (target / name).write_text(wanted[name], "utf-8")
            else:
                (target / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
