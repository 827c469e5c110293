# SPDX-License-Identifier: Apache-2.0
"""The gallery: reports of `demi convert --report` on the real models that the set-up has unpacked.

Each is converted to float16 as the command does by default, and nothing is written but its report, one file
that opens offline. The page has a card for each: what runs in 16-bit, nodes, casts, weights, as the report
counts them.
"""

import concurrent.futures
import dataclasses
import html
import json
import os
import pathlib
import subprocess

FLOATS = {"float", "double", "float16", "bfloat16"}
LOW = {"float16", "bfloat16"}


@dataclasses.dataclass
class Card:
    name: str
    package: str
    file: str
    report: dict

    def share(self) -> tuple[int, int]:
        """Nodes in 16-bit, and all floating-point nodes; constants apart, as tools/command/report_page.html has it."""
        types = [node["dtype"] for node in self.report["nodes"] if node["op_type"] != "Constant"]
        return sum(t in LOW for t in types), sum(t in FLOATS for t in types)


def models_of(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*/*.onnx"))


def report_of(demi: pathlib.Path, model: pathlib.Path, folder: pathlib.Path) -> Card:
    package = model.parent.name
    name = model.stem if model.stem != "model" else package
    page = folder.resolve() / f"{package}-{model.stem}.html"
    done = subprocess.run([demi.resolve(), "convert", model.name, "-n", "-q", "--report", page, "--json", "-"],
                          cwd=model.parent, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{model}: {done.stderr.decode()}")
    return Card(name, package, page.name, json.loads(done.stdout))


def size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.0f} kB"


def card_html(card: Card) -> str:
    low, floats = card.share()
    percent = 100 * low / floats if floats else 0
    shown = "100" if low == floats else f"{min(percent, 99):.0f}"
    report = card.report
    casts = report["casts"]["remaining"]
    facts = [("nodes", f"{report['node_count']['before']:,}"), ("casts", f"{casts:,}"),
             ("weights", f"{size(report['bytes']['before'])} → {size(report['bytes']['after'])}")]
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return (f'<a class="report-card" href="reports/{html.escape(card.file)}">'
            f"<strong>{html.escape(card.name)}</strong><span>{html.escape(card.package)}</span>"
            f'<b>{shown} %</b><span>{low:,} of {floats:,} floating-point nodes run in float16</span>'
            f'<i class="share"><i style="width: {percent:.1f}%"></i></i><dl>{rows}</dl></a>')


def write_page(demi: pathlib.Path, models: pathlib.Path, target: pathlib.Path, reports: pathlib.Path) -> int:
    """Makes the reports and their page; gives how many there are."""
    reports.mkdir(parents=True, exist_ok=True)
    found = models_of(models)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cards = list(pool.map(lambda model: report_of(demi, model, reports), found))
    cards.sort(key=lambda card: (card.package, -card.report["node_count"]["before"]))
    packages = sorted({card.package for card in cards})
    text = f"""Reports
=======

Reports that ``demi convert --report`` writes for {len(cards)} models that Python packages ship
({', '.join(packages)}), converted to float16 with default options. Each report is one file that opens offline
and lists every node with its type and the reason for it.

.. raw:: html

   <div class="report-cards">{''.join(card_html(card) for card in cards)}</div>
"""
    target.write_text(text)
    return len(cards)
