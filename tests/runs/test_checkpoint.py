"""A run that is saved, killed or refused by the disk comes back exactly, or says why not."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int8, PRNGKeyArray, UInt32
from orbax.checkpoint import v1 as ocp

from azchess.pytree import pytree
from azchess.runs import checkpoint
from azchess.runs.checkpoint import CheckpointError, Checkpoints


@pytree
class Lane:
    """A game with its own key."""

    board: Int8[Array, "*b 3"]
    hash: UInt32[Array, "*b 2"]
    past: Int8[Array, "*b 0"]
    key: PRNGKeyArray


NETWORK = {"blocks": {"kernel": jnp.arange(6.0).reshape(2, 3)}, "bias": jnp.ones(3, jnp.bfloat16)}


def make_run(seed: int = 0) -> dict:
    """One leaf of every kind that a run holds."""
    lanes = jax.random.split(jax.random.key(seed), 4)
    return {
        "lanes": Lane(
            board=jnp.arange(12, dtype=jnp.int8).reshape(4, 3) - 6,
            hash=jnp.full((4, 2), 2**32 - 1 - seed, jnp.uint32),
            past=jnp.zeros((4, 0), jnp.int8),
            key=lanes,
        ),
        "rbg": jax.random.key(seed, impl="rbg"),
        "optimiser": optax.adam(1e-3).init(NETWORK),
        "over": jnp.array([True, False]),
        "half": jnp.array([0.1, jnp.nan, -jnp.inf], jnp.bfloat16),
        "iteration": jnp.int32(seed),
    }


def abstract_run() -> dict:
    return jax.eval_shape(make_run)


def bits(tree) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of each leaf."""

    def one(leaf):
        data = (
            jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        )
        return str(leaf.dtype), leaf.shape, np.asarray(data).tobytes()

    return [one(leaf) for leaf in jax.tree.leaves(tree)]


@pytest.fixture
def checkpoints(tmp_path: pathlib.Path):
    with Checkpoints(tmp_path / "run") as checkpoints:
        yield checkpoints


def save(checkpoints: Checkpoints, step: int, **metadata) -> None:
    checkpoints.save(step, network=NETWORK, run=make_run(step), metadata=metadata)
    checkpoints.wait()


@pytest.mark.fast
def test_a_run_comes_back_bit_for_bit(checkpoints):
    save(checkpoints, 7)
    restored = checkpoints.restore(None, abstract_run())
    assert jax.tree.structure(restored) == jax.tree.structure(make_run(7))
    assert bits(restored) == bits(make_run(7))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(restored))
    assert jax.tree.map(jax.typeof, restored) == jax.tree.map(jax.typeof, make_run(7))


def test_restored_keys_draw_the_same_numbers(checkpoints):
    save(checkpoints, 1)
    restored = checkpoints.restore(1, abstract_run())
    for name in ("lanes", "rbg"):
        key, expected = (
            tree[name].key[2] if name == "lanes" else tree[name] for tree in (restored, make_run(1))
        )
        assert (jax.random.bits(key, (4,)) == jax.random.bits(expected, (4,))).all()


def test_arrays_may_be_donated_right_after_save(checkpoints, monkeypatch):
    # Holds the writer back until the donated buffers have been written over.
    donated = threading.Event()
    write = ocp.save_checkpointables
    monkeypatch.setattr(
        ocp, "save_checkpointables", lambda *a, **k: donated.wait(5) and write(*a, **k)
    )
    overwrite = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0 - 1, tree), donate_argnums=0)
    tree = {"boards": jnp.arange(100_000, dtype=jnp.int32), "values": jnp.linspace(0, 1, 100_000)}
    expected = jax.tree.map(lambda x: np.array(x, copy=True), tree)
    checkpoints.save(1, network=tree, run=tree)
    gone = tree
    for _ in range(3):
        tree = jax.block_until_ready(overwrite(tree))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(gone))
    donated.set()
    checkpoints.wait()
    restored = checkpoints.restore(1, jax.eval_shape(lambda: expected))
    assert bits(restored) == bits(expected)
    assert bits(checkpoints.restore_network(1)) == bits(expected)


def test_a_restored_run_may_be_donated(checkpoints):
    save(checkpoints, 3)
    restored = checkpoints.restore(3, abstract_run())
    boards = restored["lanes"].board
    after = jax.jit(lambda x: x + 1, donate_argnums=0)(boards)
    assert boards.is_deleted()
    np.testing.assert_array_equal(after, np.asarray(make_run(3)["lanes"].board) + 1)


def test_a_run_is_placed_by_the_shardings_asked_for(checkpoints):
    save(checkpoints, 3)
    mesh = jax.make_mesh((1,), ("games",))
    over_games = NamedSharding(mesh, PartitionSpec("games"))
    abstract = abstract_run()
    abstract["lanes"] = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=over_games), abstract["lanes"]
    )
    restored = checkpoints.restore(3, abstract)
    assert bits(restored) == bits(make_run(3))
    assert all(leaf.sharding == over_games for leaf in jax.tree.leaves(restored["lanes"]))


@pytest.mark.fast
def test_the_network_is_read_without_the_run_and_without_the_package(checkpoints):
    save(checkpoints, 2)
    plain = ocp.load(str(checkpoints.directory / "2"), checkpointable_name="network")
    for network in (
        plain,
        checkpoints.restore_network(2),
        checkpoints.restore_network(None, jax.eval_shape(lambda: NETWORK)),
    ):
        assert jax.tree.structure(network) == jax.tree.structure(NETWORK)
        assert bits(network) == bits(NETWORK)


def test_a_network_without_arrays_is_saved_too(checkpoints):
    checkpoints.save(1, network={}, run=make_run())
    checkpoints.wait()
    assert checkpoints.restore_network(1) == {}
    assert checkpoints.restore_network(1, {}) == {}


def test_a_save_goes_on_in_the_background_and_the_next_waits_for_it(checkpoints, monkeypatch):
    go = threading.Event()
    write = ocp.save_checkpointables
    monkeypatch.setattr(ocp, "save_checkpointables", lambda *a, **k: go.wait(5) and write(*a, **k))
    checkpoints.save(1, network=NETWORK, run=make_run())
    assert checkpoints.steps() == []
    threading.Timer(0.1, go.set).start()
    checkpoints.save(2, network=NETWORK, run=make_run())
    assert 1 in checkpoints.steps()
    checkpoints.wait()
    assert checkpoints.steps() == [1, 2]


@pytest.mark.fast
def test_only_the_newest_and_every_nth_step_are_kept(tmp_path):
    with Checkpoints(tmp_path, keep_latest=2, keep_every=4) as checkpoints:
        for step in range(1, 8):
            save(checkpoints, step)
        assert checkpoints.steps() == [4, 6, 7]
        assert checkpoints.latest() == 7
        assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "6", "7"]


def test_an_old_checkpoint_goes_only_after_the_new_one_is_complete(tmp_path, monkeypatch):
    during = []
    write = ocp.save_checkpointables

    def watched(path, *args, **kwargs):
        during.append(checkpoints.steps())
        write(path, *args, **kwargs)

    monkeypatch.setattr(ocp, "save_checkpointables", watched)
    with Checkpoints(tmp_path, keep_latest=1) as checkpoints:
        for step in (1, 2, 3):
            save(checkpoints, step)
        assert during == [[], [1], [2]]
        assert checkpoints.steps() == [3]


def test_metadata_comes_back_as_json(checkpoints):
    save(checkpoints, 1, config={"games": 256, "sizes": (2, 3)}, seconds=1.5)
    assert checkpoints.metadata(1) == {"config": {"games": 256, "sizes": [2, 3]}, "seconds": 1.5}
    with pytest.raises(CheckpointError, match="must be JSON"):
        checkpoints.save(2, network=NETWORK, run=make_run(), metadata={"x": object()})


# A disk that fails, a process that dies.


def test_a_full_disk_is_reported_and_the_checkpoint_before_it_still_loads(tmp_path):
    # In a process of its own: the limit is the process's, and Orbax's failing threads are noisy.
    program = """
        import resource, sys
        import jax, jax.numpy as jnp
        from azchess.runs.checkpoint import CheckpointError, Checkpoints
        run = {"replay": jax.random.bits(jax.random.key(0), (1 << 20,))}
        checkpoints = Checkpoints(sys.argv[1])
        checkpoints.save(1, network={}, run={"replay": run["replay"][:9]})
        checkpoints.wait()
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        checkpoints.save(2, network={}, run=run)
        try:
            checkpoints.wait()
        except CheckpointError as error:
            print(error)
        print([path.name for path in checkpoints.directory.iterdir()])
        restored = checkpoints.restore(None, {"replay": run["replay"][:9]})
        print((restored["replay"] == run["replay"][:9]).all())
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        checkpoints.save(2, network={}, run=run)
        checkpoints.wait()
        print(checkpoints.steps())
    """
    output = subprocess.check_output(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        stderr=subprocess.DEVNULL,
        text=True,
    )
    error, files, equal, steps = output.splitlines()
    assert error.startswith(f"checkpoint 2 could not be written to {tmp_path} (step 1 is intact): ")
    assert "File too large" in error
    assert (files, equal, steps) == ("['1']", "True", "[1, 2]")


def test_a_failed_save_is_reported_by_the_next_one(checkpoints, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ocp, "save_checkpointables", full)
        checkpoints.save(1, network=NETWORK, run=make_run())
        with pytest.raises(CheckpointError, match=r"none before it.*No space left"):
            checkpoints.save(2, network=NETWORK, run=make_run())
    save(checkpoints, 3)
    assert checkpoints.steps() == [3]


def test_half_written_steps_are_no_checkpoints_and_are_cleared_by_the_next_save(checkpoints):
    save(checkpoints, 1)
    folder = checkpoints.directory
    for name in ("2.orbax-checkpoint-tmp", "3.orbax-checkpoint-tmp-1", "0.removed", "9", "notes"):
        (folder / name / "run").mkdir(parents=True)
    assert checkpoints.latest() == 1
    save(checkpoints, 2)
    assert checkpoints.steps() == [1, 2]
    # What this class did not write it does not remove.
    assert {path.name for path in folder.iterdir()} == {"1", "2", "9", "notes"}


@pytest.mark.slow
def test_a_killed_process_leaves_only_complete_checkpoints(tmp_path):
    program = """
        import sys
        import jax.numpy as jnp
        from azchess.runs.checkpoint import Checkpoints
        checkpoints = Checkpoints(sys.argv[1], keep_latest=3)
        large = {"replay": jnp.arange(30_000_000)}
        for step in range(1, 100):
            checkpoints.save(step, network={"step": jnp.int32(step)}, run=large)
            print(step, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # Step 2 is on its way when it is announced, so step 1 is complete.
        assert [process.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
        os.kill(process.pid, signal.SIGKILL)
    checkpoints = Checkpoints(tmp_path)
    for step in checkpoints.steps():
        assert checkpoints.restore_network(step) == {"step": step}
        checkpoints.restore(step, jax.eval_shape(lambda: {"replay": jnp.arange(30_000_000)}))
    assert checkpoints.latest() in (1, 2)
    save(checkpoints, 3)
    assert {path.name for path in tmp_path.iterdir()} <= {"1", "2", "3"}


# What does not fit is refused by name.


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"over": jnp.zeros(3, bool)}, r"over: stored bool\[2\], expected bool\[3\]"),
        ({"over": jnp.zeros(2, jnp.int8)}, r"over: stored bool\[2\], expected int8\[2\]"),
        ({"more": jnp.zeros(2)}, r"more: stored nothing, expected float32\[2\]"),
        ({"rbg": jax.ShapeDtypeStruct((), jnp.uint32)}, r"rbg: stored key<rbg>\[\], expected uint"),
    ],
)
def test_a_leaf_that_does_not_fit_is_named(checkpoints, change, message):
    save(checkpoints, 1)
    with pytest.raises(CheckpointError, match=message):
        checkpoints.restore(1, {**abstract_run(), **change})


def test_a_network_that_does_not_fit_is_refused_by_name(checkpoints):
    save(checkpoints, 1)
    with pytest.raises(CheckpointError, match=r"network of .*\n  scale: stored nothing, expected"):
        checkpoints.restore_network(1, {**NETWORK, "scale": jnp.zeros(1)})


def test_a_leaf_that_is_stored_but_not_expected_is_named(checkpoints):
    save(checkpoints, 1)
    less = abstract_run()
    del less["half"]
    with pytest.raises(CheckpointError, match=r"half: stored bfloat16\[3\], expected nothing"):
        checkpoints.restore(1, less)


def test_another_config_is_refused_by_field(checkpoints):
    config = {"games": 256, "search": {"simulations": 16, "cap": None}}
    save(checkpoints, 1, config=config)
    checkpoints.restore(1, abstract_run(), config=config)
    config["search"]["simulations"] = 32
    with pytest.raises(
        CheckpointError, match=r"config\.search\.simulations: stored 16, expected 32"
    ):
        checkpoints.restore(1, abstract_run(), config=config)


def test_another_version_or_format_is_refused(checkpoints, monkeypatch):
    save(checkpoints, 1)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.importlib.metadata, "version", lambda _: "9.9.0")
        with pytest.raises(CheckpointError, match=r"written by azchess 0.*this is azchess 9\.9\.0"):
            checkpoints.restore(1, abstract_run())
        # Arrays that fit are enough to play with an old network.
        checkpoints.restore_network(1)
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    with pytest.raises(CheckpointError, match="has format 1; this azchess reads format 2"):
        checkpoints.restore(1, abstract_run())


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path / "absent")
    assert checkpoints.steps() == []
    assert checkpoints.latest() is None
    with pytest.raises(CheckpointError, match="absent holds no checkpoint"):
        checkpoints.restore(None, abstract_run())
    assert not (tmp_path / "absent").exists()


def test_a_step_that_is_not_there_is_refused_with_those_that_are(checkpoints):
    save(checkpoints, 1)
    save(checkpoints, 4)
    with pytest.raises(CheckpointError, match="holds no step 3; it holds 1, 4"):
        checkpoints.metadata(3)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    ocp.save_checkpointables(str(tmp_path / "1"), {"run": {"x": np.ones(2)}})
    with pytest.raises(CheckpointError, match="is not a checkpoint of azchess"):
        Checkpoints(tmp_path).metadata()


def test_damaged_arrays_are_reported(checkpoints):
    # One leaf: with more, reads that Orbax gives up disturb the tests after this one.
    checkpoints.save(1, network={}, run={"replay": jnp.arange(9)})
    checkpoints.wait()
    for path in (checkpoints.directory / "1" / "run").rglob("d/*"):
        path.write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"run of .* is damaged and cannot be read \(no older"
    ):
        checkpoints.restore(1, {"replay": jnp.arange(9)})


def test_a_damaged_step_names_the_one_before_it(checkpoints):
    for step in (1, 2):
        checkpoints.save(step, network={}, run={"replay": jnp.arange(9)})
    checkpoints.wait()
    for path in (checkpoints.directory / "2" / "run").rglob("d/*"):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"without this folder the newest step is 1\)"):
        checkpoints.restore(None, {"replay": jnp.arange(9)})


def test_an_incomplete_step_is_written_anew(checkpoints):
    save(checkpoints, 1)
    (checkpoints.directory / "1" / "_CHECKPOINT_METADATA").unlink()
    assert checkpoints.latest() is None
    save(checkpoints, 1)
    checkpoints.wait()
    assert checkpoints.steps() == [1]


def test_a_damaged_note_is_reported(checkpoints):
    save(checkpoints, 1)
    (checkpoints.directory / "1" / "_CHECKPOINT_METADATA").write_text("{")
    with pytest.raises(CheckpointError, match=r"/1 is damaged or is not a checkpoint"):
        checkpoints.metadata(1)


def test_a_leaf_that_is_no_array_is_refused_by_name(checkpoints):
    with pytest.raises(CheckpointError, match=r"leaf games/count is 3; only arrays are saved"):
        checkpoints.save(1, network={}, run={"games": {"count": 3}})


def test_a_step_is_saved_once_and_in_order(checkpoints):
    save(checkpoints, 3)
    with pytest.raises(CheckpointError, match="step 3 is not after step 3"):
        save(checkpoints, 3)


def test_retention_that_would_keep_nothing_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="keep_latest is 0"):
        Checkpoints(tmp_path, keep_latest=0)
    with pytest.raises(CheckpointError, match="keep_every is 0"):
        Checkpoints(tmp_path, keep_every=0)


def test_the_arrays_of_the_run_are_named_by_their_path_on_disk(checkpoints):
    save(checkpoints, 1)
    stored = ocp.load(str(checkpoints.directory / "1"), checkpointable_name="run")
    assert {"lanes/board", "lanes/key", "optimiser/0/mu/blocks/kernel"} <= stored.keys()
    note = json.loads((checkpoints.directory / "1" / "_CHECKPOINT_METADATA").read_text())
    assert note["custom_metadata"]["leaves"]["run"]["lanes/key"] == ["key<fry>", [4]]
