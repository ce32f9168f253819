"""Keeps a finished run as a result: python experiments/collect.py RUN COMMIT QUESTION COMMAND...

Copies what is small from the run's folder into experiments/results/NAME, NAME being the folder's
own: config.json, rows.jsonl (one row of metrics per iteration), evaluation.json, learning.png, and
report.md with the question, the command, the commit that was run, the machine, the tables, and
what stands in NAME's notes.md.
"""

import datetime
import os
import pathlib
import platform
import shutil
import sys

import jax

from azchess.runs.report import save_figure
from azchess.runs.tables import Table, read_run, strength, suites, summary

RESULTS = pathlib.Path(__file__).parent / "results"


def collect(run_dir: pathlib.Path, commit: str, question: str, command: str) -> pathlib.Path:
    """Writes the result of a run and returns its folder."""
    result = RESULTS / run_dir.name
    result.mkdir(parents=True, exist_ok=True)
    names = {"config.json": "config.json", "metrics.jsonl": "rows.jsonl"}
    for name, kept in (names | {"evaluation.json": "evaluation.json"}).items():
        shutil.copy(run_dir / name, result / kept)
    save_figure(run_dir, result / "learning.png")
    run = read_run(run_dir)
    tables = [summary(run), *(strength(entry) for entry in suites(run))]
    facts = [
        f"Command: `{command}`",
        f"Code: commit {commit}; seeds: in config.json",
        f"Machine: {jax.devices()[0].device_kind}, {os.cpu_count()} cores, {platform.machine()}; "
        f"jax {jax.__version__}; {datetime.date.today()}",
    ]
    parts = [f"# {question}", "  \n".join(facts), "![Learning](learning.png)"]
    parts += [markdown(table).replace(str(run_dir), run_dir.name) for table in tables]
    notes = result / "notes.md"
    if notes.exists():
        parts.append(notes.read_text(encoding="utf-8").strip())
    (result / "report.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return result


def markdown(table: Table) -> str:
    """A table in Markdown; a row of one cell becomes a bold row."""
    columns = len(table.rows[-1])
    head = table.head or ("",) * columns
    rows = [
        row if len(row) == columns else (f"**{row[0]}**", *[""] * (columns - 1))
        for row in table.rows
    ]
    lines = [head, ("---",) * columns, *rows]
    return "\n".join([f"## {table.title}", "", *(f"| {' | '.join(line)} |" for line in lines)])


if __name__ == "__main__":
    run_dir, commit, question, *command = sys.argv[1:]
    print(collect(pathlib.Path(run_dir), commit, question, " ".join(command)))
