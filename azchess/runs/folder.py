"""A run's folder: its configuration, its checkpoints, and how to get a network out of it."""

import contextlib
import dataclasses
import fcntl
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
from flax import nnx

from azchess.learning.iterate import Run, new_run
from azchess.learning.learner import Learner
from azchess.runs.checkpoint import Checkpoints
from azchess.runs.config import RunConfig, presets_of, read_config, to_json
from azchess.runs.record import write_json
from azchess.runs.starts import Starts

CONFIG, START, CHECKPOINTS, EVALUATION, REPORT = (
    "config.json",
    "start",
    "checkpoints",
    "evaluation.json",
    "report.html",
)


class Loaded(NamedTuple):
    """A trained network with the configuration of its run."""

    network: Any
    config: RunConfig


def write_config(run_dir: pathlib.Path, config: RunConfig) -> None:
    """Writes config.json, from which alone the run can be started again."""
    value = to_json(config)
    run_dir.mkdir(parents=True, exist_ok=True)
    for preset in presets_of(value):
        kept = run_dir / f"{preset.__name__}.py"
        if preset.__file__ and pathlib.Path(preset.__file__).absolute() != kept.absolute():
            shutil.copy(preset.__file__, kept)
    write_json(run_dir / CONFIG, value)


@contextlib.contextmanager
def locked(run_dir: pathlib.Path) -> Iterator[None]:
    """Holds a run's folder. Raises ValueError where another process trains in it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"{run_dir}: another process is training in this folder") from error
        yield


def run_config(run_dir: str | pathlib.Path) -> RunConfig:
    """The configuration of a run. Raises ValueError where the folder is not a run's."""
    path = pathlib.Path(run_dir) / CONFIG
    if not path.is_file():
        raise ValueError(f"{run_dir} is not the folder of a run: it holds no {CONFIG}")
    return read_config(path)


def checkpoints(run_dir: str | pathlib.Path, config: RunConfig) -> Checkpoints:
    """The checkpoints of a run."""
    return Checkpoints(
        pathlib.Path(run_dir) / CHECKPOINTS,
        keep_latest=config.keep_latest,
        keep_every=config.keep_every,
    )


def first_network(config: RunConfig) -> Any:
    """A network of the config's sizes, drawn by the run's seed."""
    return config.network.init(config.game, jax.random.fold_in(_key(config), 0))


def first_run(config: RunConfig, network: Any, starts: Starts) -> Run:
    """The run before its first iteration, its games drawn by the run's seed."""
    return new_run(config.setup(), network, starts, jax.random.fold_in(_key(config), 1))


def network_arrays(network: Any) -> dict[str, Any]:
    """A network as a nested dict of arrays, which is how checkpoints hold it."""
    if isinstance(network, nnx.Module):
        return nnx.to_pure_dict(nnx.state(network))
    paths = jax.tree_util.tree_flatten_with_path(network)[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def with_arrays(network: Any, arrays: dict[str, Any]) -> Any:
    """The network with other arrays, given as `network_arrays` holds them."""
    if isinstance(network, nnx.Module):
        graph, state = nnx.split(network)
        nnx.replace_by_pure_dict(state, arrays)
        return nnx.merge(graph, state)
    paths, structure = jax.tree_util.tree_flatten_with_path(network)
    leaves = [arrays[jax.tree_util.keystr(path)] for path, _ in paths]
    return jax.tree.unflatten(structure, leaves)


def load(run_dir: str | pathlib.Path, step: int | None = None) -> Loaded:
    """The network that a run had at a checkpoint (None: the newest), and the run's configuration.

    The network that plays: the averaged weights where the run has them. Raises ValueError where the
    folder is not a run's or has no such checkpoint.
    """
    config = run_config(run_dir)
    network = first_network(config)
    with checkpoints(run_dir, config) as saved:
        arrays = saved.restore_network(step, network_arrays(network))
    return Loaded(network=with_arrays(network, arrays), config=config)


def save_start(run_dir: pathlib.Path, network: Any) -> None:
    """Keeps the network that a run begins with, which may come from another run."""
    with Checkpoints(run_dir / START) as saved:
        saved.save(0, network=network_arrays(network), run={})


def load_start(run_dir: str | pathlib.Path, config: RunConfig) -> Any:
    """The network that a run began with."""
    network = first_network(config)
    with Checkpoints(pathlib.Path(run_dir) / START) as saved:
        arrays = saved.restore_network(0, network_arrays(network))
    return with_arrays(network, arrays)


def save(saved: Checkpoints, config: RunConfig, run: Run) -> int:
    """Begins to write a checkpoint of a run; returns its iteration."""
    iteration = int(run.iteration)
    if saved.latest() != iteration:
        saved.save(
            iteration,
            network=network_arrays(run.learner.player),
            run=storable(run),
            metadata={"config": lasting(config)},
        )
    return iteration


def restore(saved: Checkpoints, config: RunConfig, starts: Starts, step: int | None) -> Run:
    """The run of a checkpoint, bit for bit."""
    # Shapes alone: a run that fills the memory must fit beside what is read.
    run = jax.eval_shape(lambda: first_run(config, first_network(config), starts))
    abstract = jax.eval_shape(storable, run)
    stored = saved.restore(step, abstract, config=lasting(config))
    return unstored(run, stored)


def lasting(config: RunConfig) -> dict[str, Any]:
    """What must stay the same in a run that goes on: all but its length, saving and measuring."""
    free = {"iterations", "checkpoint_every", "keep_latest", "keep_every", "evaluation"}
    return {name: value for name, value in to_json(config).items() if name not in free}


def storable(run: Run) -> Run:
    """The run with its networks as nested dicts of arrays: stable names, readable without flax."""
    learner = run.learner
    average = None if learner.average is None else network_arrays(learner.average)
    leaves = jax.tree.leaves(learner.optimiser)
    stored = Learner(
        network=network_arrays(learner.network),
        average=average,
        optimiser={str(index): leaf for index, leaf in enumerate(leaves)},
        step=learner.step,
    )
    return dataclasses.replace(run, learner=stored)


def unstored(like: Run, stored: Run) -> Run:
    """The inverse of `storable`; `like` is a run of the same configuration."""

    learner, kept = like.learner, stored.learner
    average = learner.average
    if average is not None:
        average = with_arrays(average, kept.average)
    leaves = [kept.optimiser[str(index)] for index in range(len(kept.optimiser))]
    return dataclasses.replace(
        stored,
        learner=Learner(
            network=with_arrays(learner.network, kept.network),
            average=average,
            optimiser=jax.tree.unflatten(jax.tree.structure(learner.optimiser), leaves),
            step=kept.step,
        ),
    )


def _key(config: RunConfig) -> jax.Array:
    return jax.random.key(config.seed)
