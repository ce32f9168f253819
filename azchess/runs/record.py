"""The score sheet of a run: one row of numbers per iteration, on disk, on screen, in trackers."""

import importlib
import json
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType, TracebackType
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

METRICS = "metrics.jsonl"
"""The file of a run's folder that holds the rows; the truth that all else is drawn from."""

NONFINITE = "nonfinite"
"""The column that names, separated by spaces, the metrics of a row that are NaN or infinite."""

Row = dict[str, Any]
"""`iteration` and the metrics of that iteration: int, float, or None where not finite."""


class RecordError(ValueError):
    """A row or a file of metrics is not what it must be; says which and why."""


@runtime_checkable
class Sink(Protocol):
    """Somewhere else that the rows go to, besides the file."""

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Takes the finite metrics of one iteration."""
        ...

    def close(self) -> None:
        """Writes out what is left."""
        ...


class Recorder:
    """Writes down each iteration as it ends: one line of JSON in `run_dir/metrics.jsonl`.

    Opening a file that is there continues it; a line that was cut off by a crash is dropped.
    """

    def __init__(self, run_dir: str | os.PathLike[str], sinks: Iterable[Sink] = ()):
        self.path = pathlib.Path(run_dir) / METRICS
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.sinks = tuple(sinks)
        self._keep(read_rows(run_dir))

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> Row:
        """Appends the row of an iteration and returns it.

        `metrics` are scalars: Python's, numpy's or jax's, which are fetched from the device here.
        What is not finite becomes null and is named in the column `nonfinite`.
        """
        if self._last is not None and iteration <= self._last:
            raise RecordError(
                f"iteration {iteration} is not after {self._last}, the last row of {self.path}"
            )
        row: Row = {"iteration": iteration}
        for name, value in jax.device_get(dict(metrics)).items():
            row[name] = _number(name, value)
        finite = {name: value for name, value in row.items() if math.isfinite(value)}
        if odd := [name for name in row if name not in finite]:
            row.update(dict.fromkeys(odd), **{NONFINITE: " ".join(odd)})
        self._file.write(json.dumps(row, allow_nan=False) + "\n")
        self._file.flush()
        self._last = iteration
        for sink in self.sinks:
            sink.log(iteration, finite)
        return row

    def truncate_after(self, iteration: int) -> None:
        """Drops the rows past an iteration, for a run that goes on from there."""
        self._file.close()
        rows = read_rows(self.path.parent)
        self._keep([row for row in rows if row["iteration"] <= iteration])

    def close(self) -> None:
        """Closes the file and the sinks."""
        self._file.close()
        for sink in self.sinks:
            sink.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _keep(self, rows: list[Row]) -> None:
        """Makes these rows the whole file and opens it at its end."""
        _replace(self.path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))
        self._last: int | None = rows[-1]["iteration"] if rows else None
        self._file = self.path.open("a", encoding="utf-8")


def read_rows(run_dir: str | os.PathLike[str]) -> list[Row]:
    """The rows of a run, oldest first; none where nothing was recorded.

    A last line without an end is still being written, or was cut off: it is left out.
    """
    path = pathlib.Path(run_dir) / METRICS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            row["iteration"]
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"{path}, line {number} is no row of metrics: {line!r}") from error
        rows.append(row)
    return rows


def read_metrics(run_dir: str | os.PathLike[str]) -> dict[str, list[int | float]]:
    """The metrics of a run as columns of equal length, NaN where a row has no finite value."""
    rows = read_rows(run_dir)
    names = dict.fromkeys(name for row in rows for name in row if name != NONFINITE)
    gap = math.nan
    return {name: [gap if row.get(name) is None else row[name] for row in rows] for name in names}


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a value as JSON, whole or not at all."""
    _replace(pathlib.Path(path), json.dumps(value, indent=2) + "\n")


def _replace(path: pathlib.Path, text: str) -> None:
    """Writes beside, then renames, so that no reader and no crash ever sees half a file."""
    beside = path.with_name(path.name + ".tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _number(name: str, value: Any) -> int | float:
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "biu":
        return int(array)
    # jax's issubdtype, because numpy's does not know bfloat16.
    if array.ndim == 0 and jnp.issubdtype(array.dtype, np.floating):
        return float(array)
    raise RecordError(f"metric {name} is {array.dtype}{list(array.shape)}, not a number")


class TensorBoard:
    """Shows the metrics in TensorBoard; needs the extra `tensorboard`."""

    def __init__(self, run_dir: str | os.PathLike[str]):
        module = _optional("tensorboardX", extra="tensorboard")
        self._writer = module.SummaryWriter(str(pathlib.Path(run_dir) / "tensorboard"))

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Writes each metric as a scalar."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Writes out what is left."""
        self._writer.close()


class WeightsAndBiases:
    """Sends the metrics to Weights & Biases; needs the extra `wandb`."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        project: str = "azchess",
        name: str | None = None,
        config: dict[str, Any] | None = None,
    ):
        module = _optional("wandb", extra="wandb")
        self._run = module.init(dir=str(run_dir), project=project, name=name, config=config)

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Sends the row."""
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        """Sends what is left."""
        self._run.finish()


def _optional(module: str, *, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is not installed; pip install 'azchess[{extra}]' brings it"
        ) from error


SHOWN = (
    ("selfplay/games", "games", ",.0f"),
    ("selfplay/simulations_per_second", "sims/s", ",.0f"),
    ("learn/policy_loss", "policy", ".3f"),
    ("learn/value_loss", "value", ".3f"),
    ("selfplay/avg_visit_entropy", "entropy", ".2f"),
)
"""What the live line shows of a row, in this order, as far as the row has it."""


class LiveLine:
    """One line on the screen that says how far the run is and how it is doing.

    On a terminal the line is renewed in place; elsewhere a plain line is printed at most every
    `every` seconds, and the last one in any case.
    """

    def __init__(
        self,
        total: int,
        *,
        console: Console | None = None,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.total = total
        self._console = console or Console()
        self._every = every
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._printed = -math.inf
        self._waiting: str | None = None
        self._live: Live | None = None

    def update(self, row: Mapping[str, Any]) -> None:
        """Shows the row of the iteration that has just ended."""
        now = self._clock()
        # Time left is counted from the end of the first iteration, which contains compilation.
        self._first = self._first or (row["iteration"], now)
        line = self._line(row, now)
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False)
                self._live.start()
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif now - self._printed >= self._every:
            self._print(line, now)
        else:
            self._waiting = line

    def stop(self) -> None:
        """Leaves the last line where it is and gives the screen back."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._waiting is not None:
            self._print(self._waiting, self._clock())

    def _print(self, line: str, now: float) -> None:
        self._console.print(Text(line), soft_wrap=True)
        self._printed, self._waiting = now, None

    def _line(self, row: Mapping[str, Any], now: float) -> str:
        iteration = row["iteration"]
        parts = [f"iteration {iteration}/{self.total}", f"{self._left(iteration, now)} left"]
        for name, label, form in SHOWN:
            if name in row:
                value = row[name]
                parts.append(f"{label} {'not finite' if value is None else format(value, form)}")
        return "  ".join(parts)

    def _left(self, iteration: int, now: float) -> str:
        first, since = self._first or (iteration, now)
        if iteration >= self.total:
            return "0:00"
        if iteration == first:
            return "-:--"
        seconds = round((now - since) / (iteration - first) * (self.total - iteration))
        hours, minutes = seconds // 3600, seconds // 60 % 60
        clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
        return f"{clock}:{seconds % 60:02}"
