"""Training: the loop around `iterate` that measures, records, saves and can be stopped."""

import contextlib
import dataclasses
import math
import os
import pathlib
import signal
import time
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from azchess.games.check import check_game
from azchess.learning.iterate import Knobs, Run, Setup, iterate, spread
from azchess.learning.selfplay import Starts
from azchess.runs import folder
from azchess.runs.checkpoint import Checkpoints
from azchess.runs.config import RunConfig
from azchess.runs.memory import check_memory
from azchess.runs.record import LiveLine, Recorder, Sink
from azchess.runs.starts import FenStarts


class TrainingError(RuntimeError):
    """Training cannot go on; says at which iteration, why, and what there is to go back to."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What a run does besides its configuration."""

    profile: bool = False
    """Write a trace of the third iteration into RUN/profile, for XProf or Perfetto."""
    devices: int | None = None
    """Devices to play on; None for all there are."""


def train(
    config: RunConfig,
    run_dir: str | pathlib.Path,
    options: Options | None = None,
    *,
    sinks: tuple[Sink, ...] = (),
    console: Console | None = None,
) -> Run:
    """Trains from the start, writing configuration, metrics and checkpoints into a new folder.

    Raises ValueError where the folder already holds a run or a number does not fit, and
    `TrainingError` where a metric is no longer finite or `game.num_slots` is too small.
    """
    options = options or Options()
    run_dir = pathlib.Path(run_dir)
    if (run_dir / folder.CONFIG).exists():
        raise ValueError(f"{run_dir} already holds a run: `azchess resume {run_dir}` continues it")
    console = console or Console()
    setup = config.setup(play_mesh(options.devices))
    check_game(config.game)
    if isinstance(config.starts, FenStarts):
        config = dataclasses.replace(config, starts=config.starts.read())
    starts = config.starts.pool(config.game)
    network = folder.first_network(config)
    if config.init_from is not None:
        network = warm_start(network, config, config.init_from)
    # Shapes alone, so that nothing large is made before it is known to fit.
    shapes = jax.eval_shape(lambda: folder.first_run(config, network, starts))
    console.print(check_memory(config, shapes, 1 if setup.mesh is None else setup.mesh.size))
    run = folder.first_run(config, network, starts)
    with folder.locked(run_dir):
        folder.write_config(run_dir, config)
        folder.save_start(run_dir, network)
        with folder.checkpoints(run_dir, config) as saved:
            folder.save(saved, config, run)  # so that a run can always be resumed
        return _train(config, setup, run, starts, run_dir, options, sinks, console)


def resume(
    run_dir: str | pathlib.Path,
    options: Options | None = None,
    *,
    iterations: int | None = None,
    sinks: tuple[Sink, ...] = (),
    console: Console | None = None,
) -> Run:
    """Continues a run from its newest checkpoint, exactly as if it had never stopped.

    Metrics after that checkpoint are dropped and made anew. `iterations` replaces the number of
    iterations to reach.
    """
    options = options or Options()
    run_dir = pathlib.Path(run_dir)
    config = folder.run_config(run_dir)
    if iterations is not None:
        config = dataclasses.replace(config, iterations=iterations)
    with folder.locked(run_dir):
        starts = config.starts.pool(config.game)
        with folder.checkpoints(run_dir, config) as saved:
            reached = saved.latest()
            if reached is None:
                raise ValueError(f"{run_dir} has no checkpoint to resume from")
            if iterations is not None and iterations < reached:
                raise ValueError(f"iterations = {iterations}: {run_dir} has reached {reached}")
            run = folder.restore(saved, config, starts, None)
        folder.write_config(run_dir, config)
        setup = config.setup(play_mesh(options.devices))
        return _train(config, setup, run, starts, run_dir, options, sinks, console or Console())


def warm_start(network: Any, config: RunConfig, run_dir: str) -> Any:
    """The network with the weights of another run. Raises ValueError where they do not fit."""
    loaded = folder.load(run_dir)
    have, want = (jax.tree.map(jnp.shape, tree) for tree in (loaded.network, network))
    if jax.tree.leaves(have) != jax.tree.leaves(want):
        raise ValueError(
            f"--init-from {run_dir}: its network is {loaded.config.network} for "
            f"{loaded.config.game.name}, but this run's is {config.network} for {config.game.name}"
        )
    return loaded.network


def play_mesh(devices: int | None) -> jax.sharding.Mesh | None:
    """A mesh over the devices, or None where there is only one."""
    number = jax.device_count() if devices is None else devices
    if not 1 <= number <= jax.device_count():
        raise ValueError(f"devices = {devices}: there are {jax.device_count()}")
    if number == 1:
        return None
    return jax.make_mesh((number,), ("games",), (jax.sharding.AxisType.Auto,))


def knobs_at(config: RunConfig, starts: Starts, iteration: int) -> tuple[Knobs, Starts]:
    """The numbers of an iteration, as arrays: one compilation serves all of them."""
    starts = dataclasses.replace(starts, reach=config.reach(iteration))
    return jax.tree.map(_array, config.knobs), jax.tree.map(_array, starts)


def simulations_of(config: RunConfig, full: float) -> float:
    """Simulations per move, where a share of the moves was searched in full."""
    knobs, most = config.knobs.search, config.search.simulations
    slow = np.minimum(most if knobs.budget is None else knobs.budget, most)
    return float(np.mean(full * slow + (1.0 - full) * np.minimum(knobs.fast_budget, slow)))


def _array(value: Any) -> jax.Array:
    return jnp.float32(value) if isinstance(value, int | float) else jnp.asarray(value)


def _train(
    config: RunConfig,
    setup: Setup,
    run: Run,
    starts: Starts,
    run_dir: pathlib.Path,
    options: Options,
    sinks: tuple[Sink, ...],
    console: Console,
) -> Run:
    first = int(run.iteration)
    if first >= config.iterations:
        console.print(f"{run_dir} has already reached iteration {first}", soft_wrap=True)
        return run
    run = spread(setup, run)
    compile_seconds, step = compile_step(setup, run, *knobs_at(config, starts, first))
    console.print(f"compiled in {compile_seconds:.1f} s; {config.iterations - first} iterations")
    plies = config.selfplay.games * config.selfplay.plies
    line = LiveLine(config.iterations, console=console)
    with (
        folder.checkpoints(run_dir, config) as saved,
        Recorder(run_dir, sinks) as recorder,
        Interrupt() as interrupt,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(line.stop)  # an error, too, gives the screen back
        recorder.truncate_after(first)
        for iteration in range(first + 1, config.iterations + 1):
            began = time.perf_counter()
            profiled = min(first + 3, config.iterations)
            with trace(options.profile and iteration == profiled, run_dir):
                run, metrics = step(run, *knobs_at(config, starts, iteration - 1))
                metrics = jax.device_get(metrics)
            seconds = time.perf_counter() - began
            row = {name: float(value) for name, value in sorted(metrics.items())}
            row["selfplay/plies_per_second"] = plies / seconds
            simulations = simulations_of(config, row["selfplay/full_searches"])
            row["selfplay/simulations_per_second"] = plies * simulations / seconds
            row["time/iteration_seconds"] = seconds
            if iteration == first + 1:
                row["time/compile_seconds"] = compile_seconds
            line.update(recorder.log(iteration, row))
            check_row(saved, iteration, row)
            last = iteration == config.iterations or interrupt.asked
            if last or iteration % config.checkpoint_every == 0:
                folder.save(saved, config, run)
            if interrupt.asked:
                break
        line.stop()
        saved.wait()
        if interrupt.asked:
            console.print(f"stopped; saved iteration {saved.latest()} in {run_dir}", soft_wrap=True)
            console.print(f"continue with: azchess resume {run_dir}", soft_wrap=True)
    return run


def compile_step(setup: Setup, run: Run, knobs: Knobs, starts: Starts) -> tuple[float, Any]:
    """Compiles one iteration ahead of time; the seconds that took, and the function."""
    began = time.perf_counter()
    compiled = iterate.lower(setup, run, knobs, starts).compile()
    return time.perf_counter() - began, compiled


def check_row(saved: Checkpoints, iteration: int, row: dict[str, float]) -> None:
    """Raises `TrainingError` where a metric is not finite or a position had too many moves."""
    bad = [name for name, value in row.items() if not math.isfinite(value)]
    problems = [f"{', '.join(bad)} is not finite"] if bad else []
    if overflows := row["selfplay/slot_overflows"]:
        problems.append(f"{overflows:.0f} positions had more legal moves than game.num_slots")
    if problems:
        saved.wait()
        good = saved.latest()
        kept = "no checkpoint was saved" if good is None else f"the last good checkpoint is {good}"
        raise TrainingError(f"iteration {iteration}: {'; '.join(problems)}; {kept}")


def trace(wanted: bool, run_dir: pathlib.Path) -> Any:
    """A profiler's context where wanted, otherwise one that does nothing."""
    return jax.profiler.trace(str(run_dir / "profile")) if wanted else contextlib.nullcontext()


class Interrupt:
    """Turns the first Ctrl-C into a wish to stop after this iteration; the second exits at once.

    SIGTERM, which announces a preemption, counts as Ctrl-C.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        with contextlib.suppress(ValueError):  # signals are caught in the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            os._exit(130)
        self.asked = True
        message = "\nstopping after this iteration; Ctrl-C again exits at once, unsaved\n"
        os.write(2, message.encode())
