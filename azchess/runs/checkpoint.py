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
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

from azchess.runs.stored import CheckpointError, impls, manifest, named, nest, place, to_host

FORMAT = 1
"""The layout of a checkpoint; raised when older readers can no longer understand a newer one."""

COMPLETE = "_CHECKPOINT_METADATA"
"""The file that every complete Orbax checkpoint has."""


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
            "leaves": {"network": manifest(network), "run": manifest(run)},
            "keys": {"network": impls(network), "run": impls(run)},
        }
        items = {"network": nest(to_host(network)), "run": to_host(run)}
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
            shutil.rmtree(self.directory / str(step), ignore_errors=True)  # incomplete: not listed
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
        try:
            note = ocp.checkpointables_metadata(str(path)).custom_metadata
        except Exception as error:
            raise CheckpointError(_damaged(path, "the metadata", error)) from error
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
        raise CheckpointError(_damaged(path, item, error)) from error


def _damaged(path: pathlib.Path, item: str, error: Exception) -> str:
    """What is wrong with a step, and which older one is left."""
    reason = str(error).strip().partition("\n")[0][:200]
    older = [step for step in Checkpoints(path.parent).steps() if step < int(path.name)]
    left = (
        f"without this folder the newest step is {older[-1]}" if older else "no older step is left"
    )
    return f"{item} of {path} is damaged and cannot be read ({left}): {reason}"


def _restore(path: pathlib.Path, item: str, note: dict[str, Any], abstract: PyTree) -> PyTree:
    """A tree like `abstract` with the stored arrays, on the devices that `abstract` names."""
    _check_leaves(f"{item} of {path}", note["leaves"][item], manifest(abstract))
    stored = named(_load(path, item, note))
    keys = note["keys"][item]
    leaves = [
        place(leaf, stored.get(name), keys.get(name)) for name, leaf in named(abstract).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(abstract), leaves)


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
