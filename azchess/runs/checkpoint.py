"""Checkpoints: a run is written down while it goes on, and taken up again exactly where it was."""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

FORMAT = 1
"""The layout of a checkpoint; raised when older readers can no longer understand a newer one."""

COMPLETE = "_CHECKPOINT_METADATA"
"""The file that every complete Orbax checkpoint has."""


class CheckpointError(ValueError):
    """A checkpoint cannot be written, found or used; says which, why and what would be accepted."""


class Checkpoints:
    """The saved stages of one run, as a player keeps adjourned games: one folder per stage.

    `directory/<step>/` holds two items: `network`, a nested dict of arrays that Orbax alone can
    read (`orbax.checkpoint.v1.load(path, checkpointable_name="network")`), and `run`, a flat dict
    from the path of each leaf of the run to its array, typed keys as their key data.

    A step is visible once it is complete (written beside, then renamed), and only then are older
    ones removed: all but the newest `keep_latest` and those divisible by `keep_every`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep_latest: int = 2,
        keep_every: int | None = None,
    ):
        if keep_latest < 1:
            raise CheckpointError(f"keep_latest is {keep_latest}; at least 1 is needed")
        if keep_every is not None and keep_every < 1:
            raise CheckpointError(f"keep_every is {keep_every}; None or at least 1 is needed")
        self.directory = pathlib.Path(directory).absolute()
        self.keep_latest = keep_latest
        self.keep_every = keep_every
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def steps(self) -> list[int]:
        """The complete steps on disk, ascending; half-written ones do not count."""
        if not self.directory.is_dir():
            return []
        found = (path for path in self.directory.iterdir() if path.name.isdecimal())
        return sorted(int(path.name) for path in found if (path / COMPLETE).is_file())

    def latest(self) -> int | None:
        """The newest complete step, None where there is none."""
        return max(self.steps(), default=None)

    def save(
        self, step: int, *, network: PyTree, run: PyTree, metadata: dict[str, Any] | None = None
    ) -> None:
        """Writes a stage of the run in the background; the game goes on at once.

        Every array is copied to the host before this returns, so its buffers may be donated
        straight away. Waits for the save before it, whose error is raised here. `network` is a
        nested dict; `metadata` is JSON, its `config` is what `restore` can compare. Weak types
        are not kept: the leaves of a run are arrays of definite type.
        """
        self.wait()
        newest = self.latest()
        if newest is not None and step <= newest:
            raise CheckpointError(
                f"step {step} is not after step {newest}, the newest checkpoint in "
                f"{self.directory}; continue from that step or choose another folder"
            )
        note = {
            "format": FORMAT,
            "version": importlib.metadata.version("azchess"),
            "metadata": _json(metadata or {}),
            "leaves": {"network": _manifest(network), "run": _manifest(run)},
            "keys": {"network": _impls(network), "run": _impls(run)},
        }
        items = {"network": _nest(_to_host(network)), "run": _to_host(run)}
        self._pending = self._writer.submit(self._write, step, items, note)

    def wait(self) -> None:
        """Waits until nothing is being written; raises the error of a save that failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def restore(
        self, step: int | None, abstract: PyTree, *, config: dict[str, Any] | None = None
    ) -> PyTree:
        """The run as it was at a step (None: the newest), bit for bit.

        `abstract` is the run as `jax.eval_shape` gives it; leaves with a sharding are placed by
        it, others on the default device. Raises `CheckpointError` where a leaf, the format, the
        version of azchess or (if given) the config differ from what is stored.
        """
        path, note = self._open(step)
        _check_version(path, note["version"])
        if config is not None:
            _check_config(path, note["metadata"].get("config"), _json(config))
        return _restore(path, "run", note, abstract)

    def restore_network(self, step: int | None, abstract: PyTree | None = None) -> PyTree:
        """The network's arrays at a step (None: the newest), without the rest of the run.

        Without `abstract` a nested dict of numpy arrays, as they lie on disk. A network of
        another version of azchess is accepted as long as its arrays are those of `abstract`.
        """
        path, note = self._open(step)
        if abstract is None:
            return _load(path, "network", note)
        return _restore(path, "network", note, abstract)

    def metadata(self, step: int | None = None) -> dict[str, Any]:
        """The `metadata` that a step (None: the newest) was saved with."""
        return self._open(step)[1]["metadata"]

    def close(self) -> None:
        """Waits for the last save and ends the writer; raises the error of a save that failed."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, step: int, items: dict[str, dict[str, Any]], note: dict[str, Any]) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._sweep()
            stored = {name: item for name, item in items.items() if item}
            ocp.save_checkpointables(str(self.directory / str(step)), stored, custom_metadata=note)
        except Exception as error:
            with contextlib.suppress(OSError):
                self._sweep()
            newest = self.latest()
            left = "there is none before it" if newest is None else f"step {newest} is intact"
            raise CheckpointError(
                f"checkpoint {step} could not be written to {self.directory} ({left}): {error}"
            ) from error
        self._prune()

    def _sweep(self) -> None:
        """Removes what an interrupted save or removal left behind."""
        for path in self.directory.iterdir():
            step, _, rest = path.name.partition(".")
            if step.isdecimal() and rest.startswith(("orbax-checkpoint-tmp", "removed")):
                shutil.rmtree(path, ignore_errors=True)

    def _prune(self) -> None:
        """Removes the steps that are not to be kept, renamed first so that none is half there."""
        steps = self.steps()
        for step in steps[: -self.keep_latest]:
            if self.keep_every is None or step % self.keep_every:
                gone = self.directory / f"{step}.removed"
                (self.directory / str(step)).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def _open(self, step: int | None) -> tuple[pathlib.Path, dict[str, Any]]:
        """The folder of a step and what was noted beside its arrays."""
        steps = self.steps()
        if not steps:
            raise CheckpointError(f"{self.directory} holds no checkpoint; is it a run's folder?")
        step = steps[-1] if step is None else step
        if step not in steps:
            stored = ", ".join(map(str, steps))
            raise CheckpointError(f"{self.directory} holds no step {step}; it holds {stored}")
        path = self.directory / str(step)
        note = ocp.checkpointables_metadata(str(path)).custom_metadata
        if not isinstance(note, dict) or "format" not in note:
            raise CheckpointError(f"{path} is damaged or is not a checkpoint of azchess")
        if note["format"] != FORMAT:
            raise CheckpointError(
                f"{path} has format {note['format']}; this azchess reads format {FORMAT}"
            )
        return path, note


def _load(path: pathlib.Path, item: str, note: dict[str, Any]) -> dict[str, Any]:
    """One item of a step as it lies on disk: a dict of numpy arrays."""
    if all(0 in shape for _, shape in note["leaves"][item].values()):
        return {}
    try:
        return ocp.load(str(path), checkpointable_name=item)
    except Exception as error:
        raise CheckpointError(f"{item} of {path} cannot be read: {error}") from error


def _named(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their path, such as `games/board`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    if len(named) < len(leaves):
        raise CheckpointError("two leaves of the tree have the same path; rename one of them")
    for name, leaf in named.items():
        if not hasattr(leaf, "dtype"):
            raise CheckpointError(f"leaf {name} is {leaf!r}; only arrays are saved")
    return named


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _manifest(tree: PyTree) -> dict[str, list[Any]]:
    """Type and shape of each leaf by its path, as JSON."""
    return {name: [str(leaf.dtype), list(leaf.shape)] for name, leaf in _named(tree).items()}


def _impls(tree: PyTree) -> dict[str, str]:
    """The random number generator of each typed key by its path."""
    leaves = _named(tree).items()
    return {name: str(jax.random.key_impl(leaf)) for name, leaf in leaves if _is_key(leaf)}


def _to_host(tree: PyTree) -> dict[str, np.ndarray]:
    """Copies of the leaves in the host's memory, typed keys as their data, empty arrays left out.

    Orbax stores no empty arrays. The copy is explicit because on a CPU jax hands out the device's
    own buffer, which then could not be donated.
    """
    leaves = {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in _named(tree).items()
        if leaf.size
    }
    for leaf in leaves.values():
        if isinstance(leaf, jax.Array):
            leaf.copy_to_host_async()
    return {name: np.array(leaf, order="C", copy=True) for name, leaf in leaves.items()}


def _nest(named: dict[str, np.ndarray]) -> dict[str, Any]:
    """The nested dict whose leaves have these paths."""
    nested: dict[str, Any] = {}
    for name, leaf in named.items():
        *parents, last = name.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = leaf
    return nested


def _restore(path: pathlib.Path, item: str, note: dict[str, Any], abstract: PyTree) -> PyTree:
    """A tree like `abstract` with the stored arrays, on the devices that `abstract` names."""
    _check_leaves(f"{item} of {path}", note["leaves"][item], _manifest(abstract))
    stored = _named(_load(path, item, note))
    impls = note["keys"][item]
    leaves = [
        _place(leaf, stored.get(name), impls.get(name)) for name, leaf in _named(abstract).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(abstract), leaves)


def _place(leaf: Any, stored: np.ndarray | None, impl: str | None) -> jax.Array:
    """A stored array (None: an empty one) on the device as `leaf` describes it."""
    data = jax.eval_shape(jax.random.key_data, leaf) if impl else leaf
    host = np.zeros(data.shape, data.dtype) if stored is None else stored
    # A buffer that aliases numpy's memory could not be donated.
    array = jax.device_put(host, may_alias=False)
    if impl:
        array = jax.random.wrap_key_data(array, impl=impl)
    sharding = getattr(leaf, "sharding", None)
    return array if sharding is None else jax.device_put(array, sharding)


def _json(value: dict[str, Any]) -> dict[str, Any]:
    """The value as it comes back from JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"metadata and config must be JSON: {error}") from error


def _check_leaves(where: str, stored: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    lines = []
    for name in sorted(stored.keys() | expected.keys()):
        if stored.get(name) != expected.get(name):
            is_there, wanted = (
                "{}{}".format(*leaves[name]) if name in leaves else "nothing"
                for leaves in (stored, expected)
            )
            lines.append(f"{name}: stored {is_there}, expected {wanted}")
    _refuse(f"{where} does not fit", lines)


def _check_version(path: pathlib.Path, stored: str) -> None:
    """Before 1.0 a new minor version may change what a run holds or means."""
    here = importlib.metadata.version("azchess")
    if stored.split(".")[:2] != here.split(".")[:2]:
        raise CheckpointError(
            f"{path} was written by azchess {stored}, this is azchess {here}; "
            f"install azchess {stored} to continue the run"
        )


def _check_config(path: pathlib.Path, stored: Any, expected: Any) -> None:
    _refuse(
        f"{path} was written with another config", list(_differences("config", stored, expected))
    )


def _differences(name: str, stored: Any, expected: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(expected, dict):
        for key in sorted(stored.keys() | expected.keys()):
            yield from _differences(f"{name}.{key}", stored.get(key), expected.get(key))
    elif stored != expected:
        yield f"{name}: stored {stored!r}, expected {expected!r}"


def _refuse(what: str, lines: list[str], shown: int = 8) -> None:
    """Raises an error with the first few of the reasons, if there are any."""
    if lines:
        more = [f"and {len(lines) - shown} more"] if len(lines) > shown else []
        raise CheckpointError("\n  ".join([f"{what}:", *lines[:shown], *more]))
