"""Render deploy/kubernetes from the Helm chart; `--check` fails if it is outdated.

The chart gets a copy of the alerts first, because Helm reads no file outside of the chart.
The manifests are for clusters without Helm. Objects that need KEDA or the Prometheus operator are
in files of their names.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).resolve().parent.parent / "deploy"
# The oldest Kubernetes that the chart supports.
KUBERNETES: Final = "1.25"
FILES: Final = {
    "keda.sh/v1alpha1": "keda.yaml",
    "monitoring.coreos.com/v1": "prometheus-operator.yaml",
}
HEADER: Final = (
    "# Rendered from deploy/helm by tools/render_kubernetes.py. Change the chart instead.\n"
)
# What only Helm reads.
_HELM: Final = re.compile(
    r"^ +app\.kubernetes\.io/managed-by: Helm\n|^  annotations:\n(?:    helm\.sh/.*\n)+",
    re.MULTILINE,
)


RULES: Final = DEPLOY / "prometheus" / "penstock-rules.yml"
CHART_RULES: Final = DEPLOY / "helm" / "penstock" / RULES.name


def render(helm: str) -> str:
    chart, values = DEPLOY / "helm" / "penstock", DEPLOY / "helm" / "example-values.yaml"
    command = [helm, "template", "penstock", str(chart), "--values", str(values)]
    command += ["--namespace", "penstock", "--kube-version", KUBERNETES]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def split(rendered: str) -> dict[str, str]:
    """The manifests of each file, without the traces of Helm."""
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", _HELM.sub("", rendered), flags=re.MULTILINE):
        version = re.search(r"^apiVersion: (\S+)$", document, re.MULTILINE)
        if version is not None:
            text = re.sub(r"^# Source: .*\n", "", document, flags=re.MULTILINE)
            text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
            found.setdefault(FILES.get(version[1], "penstock.yaml"), []).append(text.strip())
    return {name: HEADER + "\n---\n".join(texts) + "\n" for name, texts in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    parser.add_argument("--helm", default="helm", help="the program")
    options = parser.parse_args()
    target = DEPLOY / "kubernetes"
    rules = RULES.read_text("utf-8")
    if not options.check:
        CHART_RULES.write_text(rules, "utf-8")
    elif CHART_RULES.read_text("utf-8") != rules:
        print(
            f"out of date: {CHART_RULES.name} of the chart; run: python tools/render_kubernetes.py"
        )
        return 1
    wanted = split(render(options.helm))
    found = {file.name: file.read_text("utf-8") for file in target.glob("*.yaml")}
    stale = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if options.check and stale:
        print(f"out of date: {', '.join(stale)}; run: python tools/render_kubernetes.py")
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
