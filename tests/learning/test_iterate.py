"""One iteration is a fixed point of shapes, compiled once, that uses up the run it is given."""

import dataclasses
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import subtraction
from azchess.learning.iterate import Knobs, iterate, new_run
from azchess.learning.selfplay import Starts
from azchess.search.gumbel import Gumbel
from learning.scripted import NETWORK, knob_arrays, tiny_setup

TRACES = Counter()


@dataclasses.dataclass(frozen=True)
class Counted:
    """A search that counts how often it is traced."""

    search: Gumbel = Gumbel(simulations=2, considered=2)

    def __call__(self, *arguments):
        TRACES["search"] += 1
        return self.search(*arguments)


@pytest.fixture(scope="module")
def setup():
    return tiny_setup(search=Counted(), average=0.9)


@pytest.fixture(scope="module")
def starts(setup):
    """A pool of three games' starts, so that `reach` means something."""
    positions = jax.vmap(setup.game.init)(jax.random.split(jax.random.key(5), 3))
    return Starts(records=positions, reach=jnp.float32(1.0))


@pytest.fixture
def run(setup, starts):
    return new_run(setup, NETWORK.init(setup.game, jax.random.key(0)), starts, jax.random.key(1))


def facts(tree):
    """What may not change from one iteration to the next, leaf by leaf."""
    avals = map(jax.typeof, jax.tree.leaves(tree))
    weak = [getattr(aval, "weak_type", False) for aval in avals]
    leaves = [(leaf.shape, leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(tree)]
    return list(zip(leaves, weak, strict=True))


@pytest.mark.fast
def test_a_run_keeps_shapes_dtypes_weak_types_and_shardings(setup, starts, run):
    before, structure = facts(run), jax.tree.structure(run)
    for iteration in range(1, 4):
        run, metrics = iterate(setup, run, knob_arrays(), starts)
        assert facts(run) == before
        assert jax.tree.structure(run) == structure
        assert int(run.iteration) == iteration
        assert all(value.shape == () for value in metrics.values())
        assert all(value.dtype == jnp.float32 for value in metrics.values())
        assert all(np.isfinite(value) for value in metrics.values())
    assert int(run.learner.step) > 0


def test_new_numbers_compile_nothing_anew(setup, starts, run):
    run, _ = iterate(setup, run, knob_arrays(), starts)
    traced, compiled = TRACES["search"], iterate._cache_size()
    for index in range(3):
        starts = dataclasses.replace(starts, reach=jnp.float32(0.3 + 0.2 * index))
        knobs = knob_arrays(learning_rate=0.1 * index, search_share=0.2 * index)
        search = dataclasses.replace(knobs.search, discount=jnp.float32(1 - 0.1 * index))
        run, _ = iterate(setup, run, dataclasses.replace(knobs, search=search), starts)
    assert TRACES["search"] == traced
    assert iterate._cache_size() == compiled


def test_a_run_that_was_passed_on_is_gone(setup, starts, run):
    leaves = jax.tree.leaves(run)
    iterate(setup, run, knob_arrays(), starts)
    assert all(leaf.is_deleted() for leaf in leaves)
    with pytest.raises((RuntimeError, ValueError), match="delete"):
        iterate(setup, run, knob_arrays(), starts)


def test_the_network_and_the_key_that_made_a_run_outlive_it(setup, starts):
    network, key = NETWORK.init(setup.game, jax.random.key(0)), jax.random.key(1)
    run = new_run(setup, network, starts, key)
    iterate(setup, run, knob_arrays(), starts)
    inputs = jax.tree.leaves((network, key, starts))
    assert not any(leaf.is_deleted() for leaf in inputs)


def test_the_same_run_twice_is_the_same_run(setup, starts):
    network = NETWORK.init(setup.game, jax.random.key(0))
    ends = []
    for _ in range(2):
        run = new_run(setup, network, starts, jax.random.key(1))
        for _ in range(2):
            run, metrics = iterate(setup, run, knob_arrays(), starts)
        ends.append(jax.device_get((run.learner, run.replay.policy, run.games.time, metrics)))
    jax.tree.map(np.testing.assert_array_equal, *ends)


def test_another_iteration_draws_other_samples_of_the_same_games(setup, starts, run):
    for _ in range(3):
        run, _ = iterate(setup, run, knob_arrays(), starts)
    later = jax.tree.map(jnp.copy, dataclasses.replace(run, iteration=run.iteration + 5))
    one, other = (iterate(setup, state, knob_arrays(), starts)[0] for state in (run, later))
    np.testing.assert_array_equal(one.replay.policy, other.replay.policy)
    assert int(one.learner.step) == int(other.learner.step) > 0
    weights = zip(*map(jax.tree.leaves, (one.learner.network, other.learner.network)), strict=True)
    assert any((a != b).any() for a, b in weights)


@pytest.mark.slow
def test_an_iteration_is_the_same_without_jit_and_makes_no_nan_on_the_way():
    sizes = {"games": 2, "plies": 2, "capacity": 2, "batch": 2, "updates": 1}
    setup = tiny_setup(subtraction(3, 2), Gumbel(simulations=1, considered=2), **sizes)
    network, starts = NETWORK.init(setup.game, jax.random.key(0)), Starts()
    ends = []
    for off in (False, True):
        run = new_run(setup, network, starts, jax.random.key(1))
        with jax.disable_jit(off), jax.debug_nans(True):
            ends.append(jax.device_get(iterate(setup, run, knob_arrays(), starts)))
    for plain, compiled in zip(*map(jax.tree.leaves, ends), strict=True):
        if jnp.issubdtype(plain.dtype, jax.dtypes.prng_key):
            plain, compiled = jax.random.key_data(plain), jax.random.key_data(compiled)
        np.testing.assert_allclose(plain, compiled, rtol=1e-3, atol=1e-5)


def test_nothing_is_learned_before_the_replay_is_filled_as_far_as_asked(setup, starts):
    waiting = dataclasses.replace(
        setup, learn=dataclasses.replace(setup.learn, fill=0.75, average=None)
    )
    network = NETWORK.init(setup.game, jax.random.key(0))
    run = new_run(waiting, network, starts, jax.random.key(1))
    steps = []
    for _ in range(4):
        run, _ = iterate(waiting, run, knob_arrays(), starts)
        steps.append(int(run.learner.step))
    assert steps == [0, 0, 2, 4]


@pytest.mark.parametrize("capacity", [6, 0])
def test_a_replay_that_is_no_multiple_of_the_plies_is_refused(capacity):
    with pytest.raises(ValueError, match=rf"capacity = {capacity}.*selfplay.plies = 4"):
        tiny_setup(capacity=capacity)


def test_knobs_may_differ_from_game_to_game(setup, starts, run):
    knobs = Knobs(search=dataclasses.replace(knob_arrays().search, temperature=jnp.ones(4)))
    run, metrics = iterate(setup, run, knobs, starts)
    assert all(np.isfinite(value) for value in metrics.values())
