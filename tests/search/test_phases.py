"""Halving with each game's own budget, and the moves of a phase side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import hash_game
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.phases import PhaseGumbel
from search.reference import compiled, hashed_evaluator

BATCH = 8
GAME = hash_game(20, legal=0.6, ends=0.03)
BUDGETS = (1, 7, 16, 33, 50, 64, 99, 100)


def roots(seed=0, batch=BATCH):
    keys = jax.random.split(jax.random.key(seed), batch)
    return keys, jax.vmap(GAME.init)(jax.random.split(jax.random.key(seed + 1), batch))


def same(one, other, rows=slice(None)):
    for name in ("slot", "visits", "labels", "depth"):
        np.testing.assert_array_equal(getattr(one, name)[rows], getattr(other, name)[rows], name)
    for name in ("policy", "q", "value", "wdl"):
        np.testing.assert_allclose(
            getattr(one, name)[rows], getattr(other, name)[rows], atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize("form", [Gumbel, PhaseGumbel])
def test_a_game_with_a_budget_of_its_own_is_searched_like_a_search_of_so_many(form):
    keys, positions = roots()
    budget = jnp.array(BUDGETS, jnp.float32)
    together = compiled(form(100), GAME)(1.0, keys, positions, SearchKnobs(budget=budget))
    assert together.visits.sum(axis=-1).tolist() == list(BUDGETS)
    alone = compiled(form(33), GAME)(1.0, keys, positions, SearchKnobs())
    same(together, alone, BUDGETS.index(33))
    full = compiled(form(100), GAME)(1.0, keys, positions, SearchKnobs())
    same(together, full, -1)


def test_phases_visit_what_a_search_move_by_move_does_where_no_score_can_change():
    """Without Q the order of the moves stands from the start."""
    keys, positions = roots()
    knobs = SearchKnobs(c_scale=0.0, budget=jnp.array(BUDGETS, jnp.float32))
    one = compiled(Gumbel(100), GAME)(1.0, keys, positions, knobs)
    other = compiled(PhaseGumbel(100), GAME)(1.0, keys, positions, knobs)
    same(one, other)
    assert len({tuple(row) for row in one.visits.tolist()}) == BATCH
    # With it they seldom part: within a phase, one visit more changes the scale of Q.
    knobs = SearchKnobs(c_scale=0.1, c_visit=0.0)
    one = compiled(Gumbel(100), GAME)(1.0, keys, positions, knobs)
    other = compiled(PhaseGumbel(100), GAME)(1.0, keys, positions, knobs)
    assert (one.visits != other.visits).any()


@pytest.mark.fast
def test_one_visit_per_move_is_one_step():
    keys, positions = roots()
    knobs = SearchKnobs(budget=5)
    one = compiled(Gumbel(8), GAME)(1.0, keys, positions, knobs)
    other = compiled(PhaseGumbel(8), GAME)(1.0, keys, positions, knobs)
    same(one, other)
    assert (other.visits.max(axis=-1) == 1).all()


@pytest.mark.parametrize("narrowing", [2, 99])
def test_how_many_lines_idle_does_not_change_the_search(narrowing):
    keys, positions = roots()
    knobs = SearchKnobs(budget=jnp.array(BUDGETS[::-1], jnp.float32))
    plain = compiled(PhaseGumbel(100), GAME)(1.0, keys, positions, knobs)
    other = compiled(PhaseGumbel(100, narrowing=narrowing), GAME)(1.0, keys, positions, knobs)
    same(plain, other)


def test_the_network_is_called_once_per_visit_of_a_phase():
    game = hash_game(16)
    inner, counted = hashed_evaluator(game), []

    def evaluate(params, keys, positions, moves):
        jax.debug.callback(lambda: counted.append(len(keys)))
        return inner(params, keys, positions, moves)

    @jax.jit
    def run(keys, positions, budget):
        search = PhaseGumbel(200, narrowing=2)
        return search(game, evaluate, 1.0, keys, positions, SearchKnobs(budget=budget))

    keys, positions = roots()
    for budget, calls in ((16, 1), (32, 4), (200, 49)):
        counted.clear()
        decision = jax.block_until_ready(run(keys, positions, jnp.float32(budget)))
        jax.effects_barrier()
        assert len(counted) == 1 + calls
        assert (decision.visits.sum(axis=-1) == budget).all()
        # No line idles: no more is evaluated than the root and the simulations.
        assert sum(counted) == BATCH * (1 + budget)
