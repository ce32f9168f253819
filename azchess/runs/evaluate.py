"""Evaluation of a run: its suites with the network before and after training."""

import pathlib
import time

from rich.console import Console

from azchess.evaluation.suite import measure
from azchess.runs import folder
from azchess.runs.config import to_json
from azchess.runs.record import write_json


def evaluate(
    run_dir: str | pathlib.Path, step: int | None = None, *, console: Console | None = None
) -> dict:
    """Measures a run's suites with its first network and with that of a checkpoint.

    Writes evaluation.json into the run's folder and returns what it holds. Raises ValueError where
    the run has no suites or no checkpoint.
    """
    console = console or Console()
    run_dir = pathlib.Path(run_dir)
    network, config = folder.load(run_dir, step)
    if not config.evaluation:
        raise ValueError(f"{run_dir}: its config names no suites in `evaluation`")
    first = folder.load_start(run_dir, config)
    suites = []
    for suite in config.evaluation:
        began = time.perf_counter()
        console.print(f"measuring {suite.material}: {suite.positions} games, before and after")
        before, after = (
            measure(suite, config.game, which, config.knobs.search) for which in (first, network)
        )
        seconds = time.perf_counter() - began
        suites.append(
            {"suite": to_json(suite), "before": before, "after": after, "seconds": seconds}
        )
    with folder.checkpoints(run_dir, config) as saved:
        iteration = saved.latest() if step is None else step
    result = {"iteration": iteration, "suites": suites}
    write_json(run_dir / folder.EVALUATION, result)
    return result
