"""Budgets, batched leaves and dice: what the loop does beside simulation after simulation."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.dice import dice_game
from azchess.games.solve import solve
from azchess.games.toy import hash_game
from azchess.networks.evaluator import uniform_evaluator
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct
from search.reference import compiled, hashed_evaluator
from search.reference_leaves import puct_leaves

BATCH = 8
GAME = hash_game(7, legal=0.7, ends=0.2)


def roots(game, seed=0):
    keys = jax.random.split(jax.random.key(seed), BATCH)
    return jax.random.split(jax.random.key(seed + 1), BATCH), jax.vmap(game.init)(keys)


@functools.cache
def thought(game, search):
    """`(keys, positions, knobs) -> (Decision, Tree)`, compiled."""
    evaluate = hashed_evaluator(game)
    return jax.jit(
        lambda keys, positions, knobs: search.think(game, evaluate, 1.0, keys, positions, knobs)
    )


@pytest.mark.fast
def test_a_game_stops_at_its_own_budget_as_if_it_were_searched_alone():
    keys, positions = roots(GAME)
    budgets = jnp.array([1, 5, 48, 17, 48, 30, 100, 2])
    search = thought(GAME, Puct(48))
    knobs = dataclasses.replace(SearchKnobs().greedy(), budget=budgets)
    decision, _ = search(keys, positions, knobs)
    assert decision.visits.sum(axis=-1).tolist() == [1, 5, 48, 17, 48, 30, 48, 2]
    for row in (1, 3):
        alone = compiled(Puct(int(budgets[row])), GAME)(
            1.0, keys, positions, SearchKnobs().greedy()
        )
        assert (decision.visits[row] == alone.visits[row]).all()
        np.testing.assert_allclose(decision.value[row], alone.value[row], atol=1e-6)
        np.testing.assert_allclose(decision.wdl[row], alone.wdl[row], atol=1e-6)


def test_a_batch_that_needs_fewer_simulations_makes_fewer_steps():
    keys, positions = roots(GAME)
    knobs = dataclasses.replace(SearchKnobs().greedy(), budget=jnp.full(BATCH, 5))
    few = thought(GAME, Puct(48))(keys, positions, knobs)[1]
    assert (few.parent[:, 1:6] >= 0).all()
    assert (few.parent[:, 6:] == -1).all()


@pytest.mark.parametrize("virtual_loss", [False, True], ids=["visits", "loss"])
def test_batched_leaves_equal_a_plain_search_of_batched_leaves(virtual_loss):
    keys, positions = roots(GAME, seed=4)
    search = Puct(60, leaves=6, virtual_loss=virtual_loss)
    decision, tree = jax.device_get(thought(GAME, search)(keys, positions, SearchKnobs().greedy()))
    different = 0
    for row in range(BATCH):
        own = jax.tree.map(lambda leaf, row=row: leaf[row], positions)
        root, _, margin = puct_leaves(
            GAME, 1.0, own, SearchKnobs(), 60, leaves=6, virtual_loss=virtual_loss
        )
        width = len(root.labels)
        if decision.visits[row, :width].tolist() != root.visits:
            different += 1
            assert margin < 1e-5
            continue
        np.testing.assert_allclose(tree.total[row, 0, :width], root.total, atol=1e-4)
    assert different <= 1


@pytest.mark.fast
def test_batched_leaves_keep_the_laws_of_a_tree():
    keys, positions = roots(GAME)
    knobs = dataclasses.replace(SearchKnobs().greedy(), budget=jnp.array([48, 1, 7, 48] * 2))
    tree = jax.device_get(thought(GAME, Puct(48, leaves=8))(keys, positions, knobs)[1])
    assert tree.visits[:, 0].sum(axis=-1).tolist() == [48, 1, 7, 48] * 2
    assert (tree.in_flight == 0).all()
    for row, node, slot in np.argwhere(tree.child >= 0):
        child = tree.child[row, node, slot]
        assert (tree.parent[row, child], tree.slot[row, child]) == (node, slot)
        through, onward = tree.visits[row, node, slot], tree.visits[row, child].sum()
        assert onward == (0 if tree.finished[row, child] else through - 1)
    for row in range(BATCH):
        children = tree.child[row][tree.child[row] >= 0]
        assert len(set(children.tolist())) == len(children)


def test_batched_leaves_ask_the_network_less_often():
    keys, positions = roots(GAME)
    calls = []

    def evaluate(params, keys, positions, moves):
        jax.debug.callback(lambda: calls.append(len(keys)))
        return uniform_evaluator(GAME)(params, keys, positions, moves)

    for leaves in (1, 8):
        calls.clear()
        search = Puct(48, leaves=leaves)
        run = jax.jit(
            lambda keys, positions, search=search: search(
                GAME, evaluate, None, keys, positions, SearchKnobs().greedy()
            )
        )
        jax.block_until_ready(run(keys, positions))
        jax.effects_barrier()
        if leaves == 1:
            assert calls == [BATCH] * 49
        else:
            assert calls[0] == BATCH
            assert set(calls[1:]) == {8 * BATCH}
            assert len(calls) - 1 < 24


DICE = dice_game(choices=2, moves=2, rolls=(0.5, 0.25, 0.125, 0.125))
TWICE = dice_game(choices=2, moves=3, rolls=(0.6, 0.3, 0.1), turns=(0, 0, 1))


@pytest.mark.fast
@pytest.mark.parametrize("turns", [(0, 1), (0, 0)], ids=["turns", "twice"])
def test_exact_chance_values_are_expectimax_at_once(turns):
    """A visit per move is enough: one move, one roll, and the last move decides by its outcome."""
    game = dice_game(choices=2, moves=2, turns=turns)
    keys, positions = roots(game)
    # Each outcome's position is judged by its truth, so that the first visit's value is exact.
    truth = solve(game, positions)
    search = Puct(2, chance="exact")

    def evaluate(params, keys, positions, moves):
        found = uniform_evaluator(game)(params, keys, positions, moves)
        after = jax.vmap(jax.vmap(game.step, (None, 0)))(positions, jnp.maximum(moves.labels, 0))
        behind = jax.vmap(jax.vmap(lambda p: game.status(p, game.moves(p)).outcome))(after)
        same = jax.vmap(jax.vmap(game.mover))(after) == jax.vmap(game.mover)(positions)[:, None]
        value = jnp.where(moves.legal, jnp.where(same, behind, -behind), -2).max(axis=-1)
        wdl = jax.nn.one_hot(1 - value, 3)
        return dataclasses.replace(found, wdl=wdl)

    knobs = dataclasses.replace(SearchKnobs().greedy(), c_init=100.0)
    decision = jax.jit(lambda k, p: search(game, evaluate, None, k, p, knobs))(keys, positions)
    q = np.full((BATCH, game.num_labels), np.nan)
    for row in range(BATCH):
        legal = decision.labels[row] >= 0
        q[row, decision.labels[row][legal]] = decision.q[row][legal]
    np.testing.assert_allclose(q[:, :2], truth.moves[:, :2], atol=1e-5)


@pytest.mark.parametrize("chance", ["sampled", "spread", "exact"])
@pytest.mark.parametrize("game", [DICE, TWICE], ids=["turns", "twice"])
def test_search_through_dice_comes_to_expectimax(game, chance):
    keys, positions = roots(game)
    truth = solve(game, positions)
    search = Puct(3000, chance=chance)
    knobs = dataclasses.replace(SearchKnobs().greedy(), c_init=0.6)
    evaluate = uniform_evaluator(game)
    decision = jax.jit(lambda k, p: search(game, evaluate, None, k, p, knobs))(keys, positions)
    best = np.nanmax(truth.moves, axis=1)
    played = truth.moves[np.arange(BATCH), decision.label]
    assert (played > best - 0.05).all()
    slot = np.arange(BATCH), decision.slot
    np.testing.assert_allclose(decision.q[slot], played, atol=0.08)


def test_spread_dice_fall_in_proportion_to_their_probabilities():
    keys, positions = roots(DICE)
    tree = jax.device_get(
        thought(DICE, Puct(200, chance="spread"))(keys, positions, SearchKnobs())
    )[1]
    checked = 0
    for row, node in np.argwhere(tree.chance & (tree.visits.sum(axis=-1) >= 16)):
        visits = tree.visits[row, node, :4]
        share = visits.sum() * np.array([0.5, 0.25, 0.125, 0.125])
        assert np.abs(visits - share).max() <= 1.5
        checked += 1
    assert checked > BATCH
