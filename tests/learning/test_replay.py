"""Replay against a plain list of plies: what may be sampled, with which history and result."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.learning.iterate import learn
from azchess.learning.learner import new_learner
from azchess.learning.replay import add, empty_replay, gather, sample, sampleable
from azchess.learning.selfplay import Ply
from azchess.search.decision import Decision
from learning.scripted import NETWORK, knob_arrays, tiny_setup

SLOTS = 3


@dataclasses.dataclass
class Entry:
    """One ply as the plain replay keeps it."""

    name: int
    game: int
    ply: int
    mover: int


class PlainLane:
    """A lane that plays games of random length and remembers everything."""

    def __init__(self, random, longest):
        self.random, self.longest = random, longest
        self.entries, self.results, self.lengths = [], {}, {}
        self.game = self.ply = 0
        self.names = iter(range(1, 10**6))

    def advance(self):
        """Plays one ply: the entry, and the game's result as seat 0 sees it if it ended."""
        entry = Entry(next(self.names), self.game, self.ply, int(self.random.integers(2)))
        self.entries.append(entry)
        result = None
        if self.random.random() < 1.5 / self.longest or self.ply + 1 >= self.longest:
            result = [[1, 0, 0], [0, 1, 0], [0, 0, 1]][self.random.integers(3)]
            self.results[self.game], self.lengths[self.game] = result, self.ply + 1
            self.game, self.ply = self.game + 1, 0
        else:
            self.ply += 1
        return entry, result

    def sampleable(self, capacity, boards):
        """Of the kept plies those of finished games whose last boards are kept: place to entry."""
        first = max(0, len(self.entries) - capacity)
        return {
            place % capacity: place
            for place in range(first, len(self.entries))
            if self.entries[place].game in self.results
            and place - min(self.entries[place].ply, boards - 1) >= first
        }

    def history(self, place, boards):
        """Names of a ply and those before it in its game, 0 where there was none."""
        ply = self.entries[place].ply
        return [self.entries[place - k].name if k <= ply else 0 for k in range(boards)]


def rows(lanes, length):
    """Plies `[T, B]` of lanes that advance in lockstep."""
    table = [[lane.advance() for lane in lanes] for _ in range(length)]
    shape = (length, len(lanes))

    def numbers(read, dtype=jnp.int32):
        return jnp.asarray([[read(*cell) for cell in row] for row in table], dtype)

    zeros, slots = jnp.zeros(shape, jnp.int32), jnp.zeros((*shape, SLOTS))
    names = numbers(lambda entry, _: entry.name)
    decision = Decision(
        slot=zeros,
        policy=slots,
        labels=slots.astype(jnp.int16),
        visits=slots.astype(jnp.int32),
        q=slots,
        prior=slots,
        network_prior=slots,
        value=zeros.astype(jnp.float32),
        wdl=jnp.zeros((*shape, 3)),
        depth=zeros,
        lockstep=zeros.astype(jnp.float32),
        moves_left=zeros.astype(jnp.float32),
    )
    return Ply(
        record={"name": names, "board": jnp.stack([names, 2 * names], axis=-1)},
        policy=(names[..., None] * jnp.ones(SLOTS)).astype(jnp.float16),
        wdl=names[..., None] * jnp.ones(3),
        mover=numbers(lambda entry, _: entry.mover),
        ply=numbers(lambda entry, _: entry.ply),
        game=numbers(lambda entry, _: entry.game),
        played=zeros,
        ended=numbers(lambda _, result: result is not None, bool),
        cut=zeros.astype(bool),
        # What stands in the rows of games that go on must not matter.
        result=numbers(lambda _, result: result or [9, 9, 9], jnp.float32),
        length=numbers(lambda entry, _: entry.ply + 1, jnp.float32),
        moves=zeros,
        decision=decision,
    )


def places(replay):
    """All lanes and columns, flat."""
    return tuple(map(jnp.ravel, jnp.indices(replay.game.shape)))


@functools.partial(jax.jit, static_argnums=1)
def everything(replay, boards):
    """The sample at each place of the replay, and whether it may be drawn."""
    samples = gather(replay, *places(replay), boards, jnp.float32(1))
    return sampleable(replay, boards), samples


written = jax.jit(add)
drawn = jax.jit(sample, static_argnums=(2, 3))


def check(replay, lanes, boards):
    """Compares every place of the replay with the plain lanes."""
    able, samples = jax.device_get(everything(replay, boards))
    capacity = replay.capacity
    for number, lane in enumerate(lanes):
        expected = lane.sampleable(capacity, boards)
        assert set(np.flatnonzero(able[number])) == set(expected)
        for column, place in expected.items():
            entry, at = lane.entries[place], number * capacity + column
            history = lane.history(place, boards)
            assert samples.history["name"][at].tolist() == history
            assert samples.history["board"][at].tolist() == [[x, 2 * x] for x in history]
            assert samples.policy[at].tolist() == [entry.name] * SLOTS
            assert samples.wdl[at].tolist() == [entry.name] * 3
            result = lane.results[entry.game]
            assert samples.result[at].tolist() == (result[::-1] if entry.mover else result)
            assert samples.moves_left[at] == lane.lengths[entry.game] - entry.ply


# T, C, B, H and the longest game; with games of one ply their numbers pass C many times.
CASES = [
    (1, 1, 1, 1, 1),
    (1, 4, 2, 1, 1),
    (3, 3, 2, 2, 2),
    (2, 6, 3, 3, 5),
    (4, 8, 2, 1, 3),
    (4, 16, 3, 8, 12),
    (5, 20, 1, 3, 30),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_replay_is_a_plain_list_of_plies(case):
    length, capacity, batch, boards, longest = case
    random = np.random.default_rng(sum(case))
    lanes = [PlainLane(random, longest) for _ in range(batch)]
    plies = rows(lanes, length)
    replay = written(empty_replay(plies, capacity), plies)
    check(replay, lanes, boards)
    for _ in range(4 * capacity // length):
        replay = written(replay, rows(lanes, length))
        check(replay, lanes, boards)
    assert int(replay.filled) == capacity
    if longest == 1:
        assert lanes[0].game > 3 * capacity


@pytest.mark.fast
def test_what_has_a_finished_game_and_its_boards_is_drawn_equally_often():
    random = np.random.default_rng(1)
    lanes = [PlainLane(random, 7) for _ in range(3)]
    replay = None
    for _ in range(7):
        plies = rows(lanes, 3)
        replay = written(empty_replay(plies, 12) if replay is None else replay, plies)
    # Each place names itself, so that a sample tells where it was drawn.
    shape = replay.game.shape
    itself = jnp.arange(replay.game.size, dtype=jnp.int32).reshape(shape)
    replay = dataclasses.replace(replay, record={"place": itself})
    number = 20_000
    samples = drawn(replay, jax.random.key(3), number, 2)
    assert (samples.weight == 1).all()
    chosen = np.asarray(samples.history["place"])[:, 0]
    counts = np.bincount(chosen, minlength=replay.game.size).reshape(shape)
    free = np.asarray(sampleable(replay, 2))
    assert 0 < free.sum() < free.size
    assert (counts[~free] == 0).all()
    expected = number / free.sum()
    statistic = ((counts[free] - expected) ** 2 / expected).sum()
    degrees = free.sum() - 1
    assert abs(statistic - degrees) < 4 * np.sqrt(2 * degrees)


def test_nothing_to_sample_has_no_weight():
    plies = rows([PlainLane(np.random.default_rng(0), 10**9) for _ in range(2)], 2)
    assert not plies.ended.any()
    for replay in (empty_replay(plies, 4), written(empty_replay(plies, 4), plies)):
        samples = drawn(replay, jax.random.key(0), 5, 2)
        assert (samples.weight == 0).all()


def test_an_empty_replay_teaches_nothing():
    # Weights that would decay, and an average that would move.
    setup = tiny_setup(average=0.5)
    game = setup.game
    learner = new_learner(setup.learn, NETWORK.init(game, jax.random.key(0)))
    average = jax.tree.map(lambda leaf: leaf + 1, learner.average)
    learner = dataclasses.replace(learner, average=average)
    record = jax.vmap(game.record)(jax.vmap(game.init)(jax.random.split(jax.random.key(0), 8)))
    shaped = rows([PlainLane(np.random.default_rng(0), 9) for _ in range(4)], 2)
    slots = jnp.zeros((2, 4, game.num_slots), jnp.float16)
    plies = dataclasses.replace(
        shaped,
        record=jax.tree.map(lambda x: x.reshape(2, 4, *x.shape[1:]), record),
        policy=slots,
    )
    knobs = knob_arrays(learning_rate=1.0, weight_decay=1.0)
    key = jax.random.key(0)
    run = jax.jit(learn, static_argnums=0)
    after, metrics = run(setup, learner, empty_replay(plies, 8), knobs, key, key)
    assert int(after.step) == 0
    for old, new in zip(*map(jax.tree.leaves, (learner, after)), strict=True):
        np.testing.assert_array_equal(old, new)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(metrics))
    full = written(empty_replay(plies, 8), dataclasses.replace(plies, ended=plies.ended | True))
    after, _ = run(setup, learner, full, knobs, key, key)
    assert int(after.step) == setup.learn.updates


def test_a_capacity_that_is_no_multiple_of_the_plies_is_an_error_that_names_it():
    plies = rows([PlainLane(np.random.default_rng(0), 3)], 4)
    with pytest.raises(ValueError, match=r"capacity = 6.*selfplay.plies = 4"):
        empty_replay(plies, 6)
