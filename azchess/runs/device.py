"""A short check of an accelerator: a few iterations of a preset, measured."""

import math
import pathlib
import time
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from azchess.networks.transformer import num_parameters
from azchess.runs import folder
from azchess.runs.config import RunConfig, load_config
from azchess.runs.memory import check_memory
from azchess.runs.train import compile_step, knobs_at, play_mesh

PEAK_TFLOPS = {
    "A100": 312.0,
    "H100": 989.0,
    "H200": 989.0,
    "TPU v4": 275.0,
    "TPU v5 lite": 197.0,
    "TPU v5": 459.0,
    "TPU v6 lite": 918.0,
}
"""Dense bfloat16 peak of one device, from the makers' data sheets."""


def device_check(
    preset: str | pathlib.Path, *, iterations: int = 3, console: Console | None = None
) -> Table:
    """Trains a few iterations of a preset and prints speed, model FLOPs utilisation and memory.

    The first iteration is not counted. Model FLOPs are those of `evaluation_flops` per
    evaluation, and three times that per sample learned (forward and backward).
    """
    console = console or Console()
    config = load_config(preset)
    starts = config.starts.pool(config.game)
    run = folder.first_run(config, folder.first_network(config), starts)
    console.print(check_memory(config, run))
    flops = evaluation_flops(config, run.learner.network)
    setup = config.setup(play_mesh(None))
    knobs, starts = knobs_at(config, starts, 0)
    compile_seconds, step = compile_step(setup, run, knobs, starts)
    console.print(f"compiled in {compile_seconds:.1f} s")
    times = []
    for _ in range(iterations + 1):
        began = time.perf_counter()
        run, _ = jax.block_until_ready(step(run, knobs, starts))
        times.append(time.perf_counter() - began)
        console.print(f"iteration: {times[-1]:.2f} s")
    seconds = sorted(times[1:])[iterations // 2]
    plies = config.selfplay.games * config.selfplay.plies
    evaluations = plies * (config.search.simulations + 1)
    samples = config.learn.batch * config.learn.updates
    achieved = flops * (evaluations + 3 * samples) / seconds
    table = Table("measure", "value", title=f"{preset} on {jax.devices()[0].device_kind}")
    table.add_row("compile seconds", f"{compile_seconds:.1f}")
    table.add_row("seconds per iteration", f"{seconds:.2f}")
    table.add_row("positions/s", f"{plies / seconds:,.0f}")
    table.add_row("simulations/s", f"{plies * config.search.simulations / seconds:,.0f}")
    table.add_row("samples learned/s", f"{samples / seconds:,.0f}")
    table.add_row("model TFLOP/s", f"{achieved / 1e12:.2f}")
    table.add_row("model FLOPs utilisation", utilisation(achieved))
    table.add_row("peak memory in use", peak_memory())
    console.print(table)
    return table


def evaluation_flops(config: RunConfig, network: Any) -> float:
    """Floating-point operations of one evaluation in the transformer's blocks: a lower bound.

    Two per weight and square, and four per pair of squares, feature and layer for the attention.
    Networks without blocks count as 0.
    """
    blocks = getattr(network, "blocks", None)
    if blocks is None:
        return 0.0
    squares = math.prod(config.game.board)
    width, layers = getattr(config.network, "width", 0), getattr(config.network, "layers", 0)
    return 2.0 * squares * num_parameters(blocks) + 4.0 * squares**2 * width * layers


def utilisation(achieved: float) -> str:
    """Share of the peak of all devices, where the peak is known."""
    kind = jax.devices()[0].device_kind
    known = [peak for name, peak in PEAK_TFLOPS.items() if name in kind]
    if not known:
        return f"unknown peak of {kind}"
    return f"{achieved / (known[0] * 1e12 * jax.device_count()):.1%}"


def peak_memory() -> str:
    """The most memory in use so far on the first device, where it tells."""
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return "unknown" if peak is None else f"{peak / 2**30:.2f} GiB"
