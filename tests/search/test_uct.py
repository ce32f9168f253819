"""UCT and RAVE against plain searches in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.dice import dice_game
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game, subtraction
from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.rave import Rave
from azchess.search.uct import FIRST, Uct
from search import uct_reference as plain
from search.test_puct import wander

BATCH = 8
# The dice are spread and valued in full, so that the plain search knows how they fall.
RULES = {
    "uct": (Uct(64), plain.uct, "hashed"),
    "tuned": (Uct(64, tuned=True), plain.ucb1_tuned, "hashed"),
    "deep": (Uct(64, bias="depth"), plain.uct_deep, "hashed"),
    "uct on rollouts": (Uct(64), plain.uct, "rollouts"),
    "rave on rollouts": (Rave(64), plain.rave_hand, "rollouts"),
    "rave": (Rave(64), plain.rave_hand, "hashed with moves"),
    "rave mse": (Rave(64, schedule="mse"), plain.rave_mse, "hashed with moves"),
    "uct-rave": (Rave(64, explore=True), plain.uct_rave, "hashed with moves"),
    "solver": (Uct(64, solver=True), plain.uct, "hashed"),
    "tuned solver": (Uct(64, tuned=True, solver=True), plain.ucb1_tuned, "hashed"),
}


def some_knobs(evaluator):
    """Other numbers in each game of a batch.

    Discounts are for values of which no two are alike: those of random games are +1 and -1, and
    moves of equal worth would be told apart by the rounding of powers alone.
    """
    discount = jnp.ones(BATCH) if evaluator == "rollouts" else jnp.linspace(0.9, 1.0, BATCH)
    return SearchKnobs(
        discount=discount,
        c_uct=jnp.linspace(3.0, 0.3, BATCH),
        c_prior=jnp.linspace(0.0, 2.0, BATCH),
        rave_visits=jnp.linspace(1.0, 500.0, BATCH),
        rave_bias=jnp.linspace(0.0, 1.0, BATCH)[::-1],
    )


def rows(tree, index):
    return jax.tree.map(lambda leaf: leaf[index] if np.ndim(leaf) else leaf, tree)


def check(game, positions, rule, simulations):
    """Lines and sums are those of the plain search, but for choices that float32 cannot make."""
    search, score, evaluator = RULES[rule]
    search = dataclasses.replace(search, simulations=simulations, chance="exact")
    count = jax.tree.leaves(positions)[0].shape[0]
    knobs, margins = some_knobs(evaluator), []
    for start in range(0, count, BATCH):
        batch = rows(positions, jnp.arange(start, start + BATCH) % count)
        keys = jax.random.split(jax.random.key(start), BATCH)
        tree = jax.device_get(plain.think(game, search, evaluator)(keys, batch, knobs)[1])
        for row in range(min(BATCH, count - start)):
            own = jax.tree.map(float, rows(knobs, row))
            reference = plain.PlainSearch(
                game, evaluator, tree, row, score, own, solver=search.solver
            )
            margin = reference.run(simulations)
            if margin is None:
                agrees(tree, row, reference.nodes)
            else:
                margins.append(margin)
    assert len(margins) <= max(1, count // 25)
    assert all(margin < 1e-5 for margin in margins), margins


def agrees(tree, row, nodes):
    for index, node in nodes.items():
        width = len(node.labels)
        closed = node.finished and index > 0
        assert bool(tree.finished[row, index]) == node.finished
        np.testing.assert_allclose(tree.value[row, index], node.value, atol=1e-5)
        if tree.lower is not None:
            bounds = tree.lower[row, index], tree.upper[row, index]
            assert bounds == (node.lower, node.upper)
            if closed:
                continue
        assert tree.visits[row, index, :width].tolist() == node.visits
        sums = {"total": node.total}
        if tree.squares is not None:
            sums["squares"] = node.squares
        if tree.amaf_visits is not None:
            assert tree.amaf_visits[row, index, :width].tolist() == node.amaf_visits
            sums["amaf_total"] = node.amaf_total
        for name, total in sums.items():
            found = getattr(tree, name)[row, index, :width]
            np.testing.assert_allclose(found, total, rtol=1e-5, atol=3e-4, err_msg=name)


@pytest.mark.parametrize("rule", RULES)
def test_lines_and_sums_are_those_of_a_plain_search(rule):
    game = hash_game(6, legal=0.7, ends=0.15, plies=12)
    check(game, wander(game, 16, 3), rule, 64)


@pytest.mark.parametrize(("rule", "moves"), [("tuned solver", 4), ("rave", 9)])
def test_lines_and_sums_are_those_of_a_plain_search_with_dice_and_moves_in_a_row(rule, moves):
    # Moves of equal worth tie in a tree that is searched to its ends, unless that is proven.
    game = dice_game(2, moves, rolls=(0.531, 0.287, 0.182), turns=(0, 0, 1))
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(1), 16))
    check(game, positions, rule, 150)


GAMES = {
    "toy": (hash_game(10, legal=0.5, ends=0.05, plies=30), 40, 5),
    "heap": (subtraction(21, 4), 16, 4),
    "connect four": (pgx_game("connect_four"), 32, 25),
    "chess": (ChessGame(), 16, 60),
}
CHESS_RULES = ("uct", "tuned", "rave", "solver")  # as compiling takes its time


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "rule"),
    [(game, rule) for game in GAMES for rule in RULES if game != "chess" or rule in CHESS_RULES],
)
def test_lines_and_sums_are_those_of_a_plain_search_up_to_400_simulations(game, rule):
    game, count, most_moves = GAMES[game]
    check(game, wander(game, count, most_moves), rule, 400)


def some_edges(visits, q, **carried):
    """One node with two moves of priors .25 and .75, 3 plies deep."""
    visits = jnp.array([visits], jnp.int32)
    return Edges(
        legal=jnp.ones((1, 2), bool),
        prior=jnp.array([[0.25, 0.75]]),
        visits=visits,
        in_flight=jnp.int32(0),
        q=jnp.array([q], jnp.float32),
        value=jnp.zeros(1),
        depth=jnp.array([3]),
        **carried,
    )


def scores(search, edges, **knobs):
    return np.asarray(search.rule(edges, columns(per_game(SearchKnobs(**knobs), 1))))[0]


@pytest.mark.fast
def test_scores_are_the_formulas_worked_out_by_hand():
    edges = some_edges([4, 100], [-0.5, 0.98], square=jnp.ones((1, 2)))
    # UCB1 for rewards .25 and .99 after 104 plays is 1.77387 and 1.29478; twice that, less 1.
    auer = scores(Uct(), edges, c_uct=8**0.5)
    np.testing.assert_allclose(auer, [2 * 1.77387 - 1, 2 * 1.29478 - 1], atol=2e-5)
    # UCB1-Tuned is .25 + .53877 and .99 + .10776 there.
    tuned = scores(Uct(tuned=True), edges, c_uct=1.0)
    np.testing.assert_allclose(tuned, [2 * 0.78877 - 1, 2 * 1.09776 - 1], atol=2e-5)
    # Depth 3 and 5 plies to go: the power is 8 / 13; ln 104 = 4.64439.
    deep = some_edges([4, 100], [-0.5, 0.98], own_moves_left=jnp.array([5.0]))
    width = [(4.64439 / 4) ** (8 / 13), (4.64439 / 100) ** (8 / 13)]
    found = scores(Uct(bias="depth"), deep, c_uct=2.0)
    np.testing.assert_allclose(found, [2 * width[0] - 0.5, 2 * width[1] + 0.98], atol=2e-5)
    biased = scores(Uct(), edges, c_uct=0.0, c_prior=2.0)
    np.testing.assert_allclose(biased, [-0.5 + 0.5 / 5, 0.98 + 1.5 / 101], atol=2e-5)


@pytest.mark.fast
def test_all_moves_as_first_weigh_as_the_schedules_say():
    amaf = {"amaf_visits": jnp.array([[10, 120]]), "amaf_q": jnp.array([[0.5, 0.0]])}
    edges = some_edges([4, 100], [-0.5, 1.0], **amaf)
    # Hand-selected: at k = N = 104 both weigh alike.
    np.testing.assert_allclose(scores(Rave(), edges, rave_visits=104.0), [0.0, 0.5], atol=1e-6)
    # Least error: m / (n + m) without bias, and 10 / (14 + 40 / 4), 120 / (220 + 12000 / 4) at 1/2.
    even = scores(Rave(schedule="mse"), edges, rave_bias=0.0)
    np.testing.assert_allclose(even, [-0.5 + 10 / 14, 1 - 120 / 220], atol=1e-6)
    mse = scores(Rave(schedule="mse"), edges, rave_bias=0.5)
    np.testing.assert_allclose(mse, [-0.5 + 10 / 24, 1 - 120 / 3220], atol=1e-6)
    # Unvisited: its all-moves-as-first alone; never played at all: before all others.
    fresh = some_edges([0, 0], [0.0, 0.0], amaf_visits=jnp.array([[7, 0]]), amaf_q=amaf["amaf_q"])
    for search in (Rave(), Rave(schedule="mse")):
        alone, never = scores(search, fresh)
        assert alone == 0.5
        assert never == FIRST
    assert (scores(Rave(explore=True), fresh) == FIRST).all()


def test_first_visits_follow_the_prior_or_chance():
    game = hash_game(5)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(0), BATCH))
    positions = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], 400, axis=0), positions)
    keys = jax.random.split(jax.random.key(1), 400)
    firsts = {}
    for ties in ("rank", "random"):
        search = Uct(3, ties=ties)
        decision = plain.think(game, search, "hashed")(keys, positions, SearchKnobs())[0]
        visited = np.asarray(decision.visits) > 0
        assert (visited.sum(axis=1) == 3).all()
        firsts[ties] = visited.mean(axis=0)
    likely = np.argsort(-np.asarray(decision.prior[0]))[:3]
    assert sorted(np.flatnonzero(firsts["rank"])) == sorted(likely)
    # Each of 5 moves is among the first 3 in 60 % of 400 searches, within 4 standard errors.
    assert np.abs(firsts["random"] - 0.6).max() < 4 * (0.6 * 0.4 / 400) ** 0.5


@pytest.mark.fast
def test_the_move_of_most_visits_or_of_the_best_mean_is_played():
    edges = some_edges([3, 1], [0.2, 0.4])
    score, policy = Uct().conclude(edges, SearchKnobs(), None)
    assert score.argmax() == 0
    assert policy.tolist() == [[0.75, 0.25]]
    score, policy = Uct(choose="value").conclude(edges, SearchKnobs(), None)
    assert score.argmax() == 1
    assert policy.tolist() == [[0.75, 0.25]]
    unvisited = some_edges([3, 0], [-0.9, 0.0])
    assert Uct(choose="value").conclude(unvisited, SearchKnobs(), None)[0].argmax() == 0
