"""What a search proves is what minimax says, and it does not forget it."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.dice import dice_game
from azchess.games.solve import solve
from azchess.games.toy import hash_game, subtraction
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import root_edges
from azchess.search.puct import Puct
from azchess.search.uct import Uct
from search.uct_reference import think

BATCH = 16
SIMULATIONS = 400
BUDGETS = (5, 20, 60, 150, SIMULATIONS)
HASH = hash_game(3, legal=0.8, ends=0.2, plies=5)
DICE = dice_game(3, 2, rolls=(0.5, 0.5))
IN_A_ROW = dice_game(3, 2, rolls=(0.6, 0.4), turns=(0, 0, 1))
HEAP = subtraction(9, 3, varied=True)
CASES = {
    "uct": (HASH, Uct(SIMULATIONS, solver=True)),
    "best mean": (HASH, Uct(SIMULATIONS, solver=True, choose="value", ties="random")),
    "puct": (HASH, Puct(SIMULATIONS, solver=True)),
    "gumbel": (HASH, Gumbel(SIMULATIONS, solver=True, considered=3)),
    "several leaves": (HASH, Uct(SIMULATIONS, solver=True, leaves=4)),
    "virtual loss": (HASH, Puct(SIMULATIONS, solver=True, leaves=4, virtual_loss=True)),
    "no draws": (HEAP, Puct(SIMULATIONS, solver=True)),
    "sampled dice": (DICE, Uct(SIMULATIONS, solver=True)),
    "spread dice": (DICE, Puct(SIMULATIONS, solver=True, chance="spread")),
    "exact dice, leaves": (IN_A_ROW, Uct(SIMULATIONS, solver=True, chance="exact", leaves=3)),
    "moves in a row": (IN_A_ROW, Puct(SIMULATIONS, solver=True)),
}
each_case = pytest.mark.parametrize("case", CASES)


@functools.cache
def searched(case):
    """The game's truth, and what is said after each of the budgets."""
    game, search = CASES[case]
    keys = jax.random.split(jax.random.key(3), BATCH)
    positions = jax.vmap(game.init)(keys)
    run = think(game, search, "hashed")
    found = []
    for budget in BUDGETS:
        knobs = SearchKnobs(budget=jnp.float32(budget)).greedy()
        decision, tree = run(keys, positions, knobs)
        found.append(jax.device_get((decision, tree, root_edges(tree))))
    return solve(game, positions), found


def worths(truth, labels):
    """The truth of each root move, by slots; NaN where there is none."""
    table = np.concatenate([truth.moves, np.full((BATCH, 1), np.nan)], axis=1)
    return np.take_along_axis(table, labels.astype(int), axis=1)


@each_case
def test_the_truth_lies_within_the_bounds_of_each_root_and_move(case):
    truth, found = searched(case)
    for decision, tree, edges in found:
        assert (tree.lower[:, 0] <= truth.worth + 1e-6).all()
        assert (tree.upper[:, 0] >= truth.worth - 1e-6).all()
        moves, legal = worths(truth, decision.labels), edges.legal
        assert (edges.lower <= moves + 1e-6)[legal].all()
        assert (edges.upper >= moves - 1e-6)[legal].all()


@each_case
def test_bounds_only_ever_get_closer(case):
    _, found = searched(case)
    for (_, before, _), (_, after, _) in itertools.pairwise(found):
        assert (after.lower[:, 0] >= before.lower[:, 0]).all()
        assert (after.upper[:, 0] <= before.upper[:, 0]).all()


@each_case
def test_what_is_proven_is_the_truth_and_is_played(case):
    truth, found = searched(case)
    for decision, tree, edges in found:
        moves = worths(truth, decision.labels)
        proven = edges.legal & (edges.lower == edges.upper)
        np.testing.assert_allclose(decision.q[proven], moves[proven], atol=1e-5)
        solved = tree.lower[:, 0] == tree.upper[:, 0]
        played = moves[np.arange(BATCH), decision.slot]
        np.testing.assert_allclose(played[solved], truth.worth[solved], atol=1e-6)
        np.testing.assert_allclose(decision.value[solved], truth.worth[solved], atol=1e-5)
        loss = decision.wdl[:, 0] - decision.wdl[:, 2]
        np.testing.assert_allclose(loss[solved], truth.worth[solved], atol=1e-5)


@each_case
def test_small_trees_are_proven_in_the_end(case):
    game, search = CASES[case]
    _, found = searched(case)
    solved = [(tree.lower[:, 0] == tree.upper[:, 0]).sum() for _, tree, _ in found]
    assert solved[0] < solved[-1]
    if not game.num_outcomes and isinstance(search, Uct):
        assert solved[-1] == BATCH


@each_case
def test_a_proven_node_counts_as_its_value_at_every_visit(case):
    _, found = searched(case)
    checked = 0
    for _, tree, _ in found:
        row, node, slot = np.nonzero(tree.child >= 0)
        child = tree.child[row, node, slot]
        open_edge = ~tree.finished[row, node]
        sign = np.where(tree.mover[row, child] == tree.mover[row, node], 1.0, -1.0)
        closed = tree.finished[row, child] & open_edge
        value = tree.visits[row, node, slot] * sign * tree.value[row, child]
        np.testing.assert_allclose(tree.total[row, node, slot][closed], value[closed], atol=1e-3)
        below = sign * (tree.value[row, child] + tree.total[row, child].sum(axis=-1))
        going = ~tree.finished[row, child] & open_edge
        np.testing.assert_allclose(tree.total[row, node, slot][going], below[going], atol=1e-3)
        checked += closed.sum()
    assert checked > BATCH
