"""Regularised policy optimisation: the optimum, how visits track it, and the search by it."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.search.edges import Edges
from azchess.search.grill import Grill, optimal_policy, regularised_policy
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.policy import root_edges
from azchess.search.puct import Puct, exploration
from search.lines import BATCH, check_lines, row_of, trees
from search.reference import best, compiled, hashed_evaluator

GAME = hash_game(7, legal=0.7, ends=0.15)


def objective(y, prior, q, legal, strength):
    """q y - strength KL(prior, y), in float64."""
    y, prior, q, strength = (np.asarray(x, np.float64) for x in (y, prior, q, strength))
    share = np.where(legal & (prior > 0), prior, 1.0)
    with np.errstate(divide="ignore"):
        bits = np.where(legal & (prior > 0), share * (np.log(share) - np.log(y)), 0.0)
    return (q * np.where(legal, y, 0.0)).sum(axis=-1) - strength[:, 0] * bits.sum(axis=-1)


def problems(slots, count, seed=0):
    """Priors from flat to spiked, legal moves from one to all, strengths over six magnitudes."""
    rng = np.random.default_rng(seed)
    legal = rng.random((count, slots)) < rng.random((count, 1))
    legal[np.arange(count), rng.integers(slots, size=count)] = True
    logits = np.where(
        legal, rng.normal(size=(count, slots)) * rng.choice([0, 1, 9], (count, 1)), -np.inf
    )
    prior = np.exp(logits - logits.max(axis=-1, keepdims=True))
    prior /= prior.sum(axis=-1, keepdims=True)
    q = rng.uniform(-1, 1, (count, slots))
    strength = 10.0 ** rng.uniform(-4, 2, (count, 1))
    return prior.astype(np.float32), q.astype(np.float32), legal, strength.astype(np.float32)


@pytest.mark.fast
@pytest.mark.parametrize("slots", [3, 218])
def test_the_optimum_is_a_policy_whose_moves_all_have_the_same_multiplier(slots):
    """Karush-Kuhn-Tucker: q + strength prior / y is one number alpha for all moves with a prior."""
    prior, q, legal, strength = problems(slots, 400)
    y = np.asarray(jax.jit(regularised_policy)(prior, q, legal, strength), np.float64)
    assert (y[~legal] == 0).all()
    assert (y[legal] > 0).all()
    np.testing.assert_allclose(y.sum(axis=-1), 1.0, atol=1e-6)
    slope = q + strength * np.maximum(prior, 1e-30) / np.where(legal, y, 1.0)
    high = np.where(legal, slope, -np.inf).max(axis=-1)
    low = np.where(legal, slope, np.inf).min(axis=-1)
    alone = legal.sum(axis=-1) == 1
    assert alone.any()
    assert (high - low < 2e-6 * (1.0 + np.abs(high)) * (1.0 + strength[:, 0])).all()
    best_q = np.where(legal, q, -np.inf).max(axis=-1)
    assert (high >= best_q - 1e-6).all()
    assert (high <= best_q + strength[:, 0] * (1 + 1e-5) + 1e-6).all()


@pytest.mark.fast
def test_no_other_policy_has_a_greater_objective():
    prior, q, legal, strength = problems(12, 300, seed=1)
    y = np.asarray(jax.jit(regularised_policy)(prior, q, legal, strength), np.float64)
    top = objective(y, prior, q, legal, strength)
    rng = np.random.default_rng(2)
    for spread in (1e-3, 1e-1, 1.0, 5.0):
        other = np.where(legal, y * np.exp(spread * rng.normal(size=y.shape)), 0.0)
        other /= other.sum(axis=-1, keepdims=True)
        gap = top - objective(other, prior, q, legal, strength)
        assert (gap > -1e-6 * (1.0 + strength[:, 0])).all()
        assert (gap > 0).mean() > 0.5


VISITS = (8, 32, 128)
DISTANCES = {  # mean sup-distance at those numbers of visits, of another implementation
    2: (0.053, 0.0134, 0.0036),
    8: (0.201, 0.083, 0.0257),
    18: (0.361, 0.182, 0.064),
    64: (0.659, 0.451, 0.215),
    200: (0.834, 0.700, 0.467),
}


@functools.cache
def tracked(moves, instances=500):
    """Visits of PUCT on bandits of known q ~ U(0, 1), prior ~ Dirichlet(1/2), and their optima."""
    rng = np.random.default_rng(0)
    q = jnp.asarray(rng.random((instances, moves)), jnp.float32)
    prior = jnp.asarray(rng.dirichlet(np.full(moves, 0.5), instances), jnp.float32)
    knobs = columns(per_game(SearchKnobs(), instances))

    def seen(visits):
        return Edges(
            legal=jnp.ones(q.shape, bool),
            prior=prior,
            visits=visits,
            in_flight=jnp.int32(0),
            q=q,
            value=jnp.zeros(instances),
            depth=jnp.zeros(instances, jnp.int32),
        )

    def pull(visits, _):
        score = q + exploration(seen(visits), knobs) * prior / (1.0 + visits)
        visits += jax.nn.one_hot(score.argmax(axis=-1), moves, dtype=jnp.int32)
        edges = seen(visits)
        strength = exploration(edges, knobs) / (moves + edges.count)
        return visits, (visits, regularised_policy(prior, q, edges.legal, strength), strength)

    def run():
        start = jnp.zeros(q.shape, jnp.int32)
        return jax.lax.scan(pull, start, None, length=max(VISITS))[1]

    return q, prior, *jax.device_get(jax.jit(run)())


@pytest.mark.parametrize("moves", list(DISTANCES))
def test_visits_of_puct_track_the_optimum_as_grill_et_al_say(moves):
    """Within (A - 1) / (A + N) of it for A >= 8, never above it, and as near as others measured."""
    q, prior, visits, policy, strength = tracked(moves)
    legal = np.ones(q.shape, bool)
    for number, distance in zip(VISITS, DISTANCES[moves], strict=True):
        at = number - 1
        shares = (1.0 + visits[at]) / (moves + number)
        apart = np.abs(policy[at] - shares).max(axis=-1)
        if moves >= 8:
            assert apart.max() <= (moves - 1) / (moves + number)
        standard_error = apart.std() / len(apart) ** 0.5
        assert abs(apart.mean() - distance) < 4.0 * 2**0.5 * standard_error + 5e-4
        top, other = (objective(y, prior, q, legal, strength[at]) for y in (policy[at], shares))
        assert (top - other > -1e-6).all()


def plain_policy(node, knobs):
    """pi-bar in float64, by Newton's steps from below, where they cannot overshoot."""
    count, number = sum(node.visits), len(node.labels)
    if count == 0:
        return node.prior
    c = knobs.c_init + knobs.c_factor * math.log((1 + count + knobs.c_base) / knobs.c_base)
    strength = c * math.sqrt(count) / (number + count)
    q = [t / n if n else knobs.fpu for t, n in zip(node.total, node.visits, strict=True)]
    weight = [strength * p for p in node.prior]
    alpha = max(x + w for x, w in zip(q, weight, strict=True))
    for _ in range(100):
        policy = [w / (alpha - x) for x, w in zip(q, weight, strict=True)]
        slope = sum(p / (alpha - x) for x, p in zip(q, policy, strict=True))
        alpha += (sum(policy) - 1.0) / slope
    return policy


def shortfall(node, knobs, ranks):
    policy, count = plain_policy(node, knobs), sum(node.visits)
    scores = [p - n / (1 + count) for p, n in zip(policy, node.visits, strict=True)]
    return best(scores, node, ranks)


def swept():
    return SearchKnobs(
        discount=jnp.linspace(0.9, 1.0, BATCH),
        c_init=jnp.linspace(0.5, 3.0, BATCH),
        c_base=jnp.linspace(20.0, 19652.0, BATCH),
        fpu=jnp.linspace(-1.0, 1.0, BATCH)[::-1],
    )


def test_visits_equal_those_of_a_plain_search_in_float64():
    search = Grill(64, search="shortfall")
    check_lines(search, GAME, shortfall, swept(), count=24, most_moves=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "most_moves"),
    [
        (hash_game(20, legal=0.5, ends=0.05), 5),
        (pgx_game("connect_four"), 25),
        (ChessGame(), 60),
    ],
    ids=["toy", "connect four", "chess"],
)
def test_visits_equal_those_of_a_plain_search_in_float64_up_to_200_simulations(game, most_moves):
    check_lines(
        Grill(200, search="shortfall"), game, shortfall, swept(), count=40, most_moves=most_moves
    )


def roots(game, batch=BATCH):
    keys = jax.random.split(jax.random.key(2), batch)
    return keys, jax.vmap(game.init)(jax.random.split(jax.random.key(3), batch))


def test_without_its_three_places_it_is_alphazero_and_each_changes_what_it_says():
    keys, positions = roots(GAME)
    knobs = SearchKnobs().greedy()
    plain = Grill(40, act=False, search="puct", learn=False)
    tree = trees(plain, GAME)(keys, positions, knobs)
    puct = compiled(Puct(40), GAME)(1.0, keys, positions, knobs)
    np.testing.assert_array_equal(tree.visits[:, 0], puct.visits)
    edges, knobs = root_edges(tree), columns(per_game(knobs, BATCH))
    noise = jnp.full(edges.prior.shape, 100.0) * jnp.arange(edges.prior.shape[1])
    optimum = optimal_policy(edges, knobs)
    for act in (False, True):
        for learn in (False, True):
            search = dataclasses.replace(plain, act=act, learn=learn)
            score, policy = search.conclude(edges, knobs, noise)
            by_visits = puct.visits.argmax(axis=-1)
            chosen = optimum.argmax(axis=-1) if act else by_visits
            np.testing.assert_array_equal(score.argmax(axis=-1), chosen)
            np.testing.assert_allclose(policy, optimum if learn else puct.policy, atol=1e-6)
    assert (jnp.abs(optimum - puct.policy).max(axis=-1) > 0.01).sum() > 4


def test_sampled_moves_are_drawn_from_the_optimum():
    """Many searches of two simulations: how often each second move comes after each first one."""
    batch, game = 20_000, hash_game(3)
    keys, _ = roots(game, batch)
    position = game.init(jax.random.key(5))
    positions = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch,)), position)
    search, knobs = Grill(2), SearchKnobs(noise_fraction=0.0)
    evaluate = hashed_evaluator(game)
    decision, tree = jax.jit(
        lambda keys: search.think(game, evaluate, 1.0, keys, positions, knobs)
    )(keys)
    first, parent, second = tree.slot[:, 1], tree.parent[:, 2], tree.slot[:, 2]
    second = jnp.where(parent == 0, second, first)
    prior = np.asarray(tree.prior[0, 0])
    np.testing.assert_allclose(np.bincount(first, minlength=3) / batch, prior, atol=0.015)
    once = dataclasses.replace(
        row_of(root_edges(tree), jnp.zeros(3, jnp.int32)), visits=jnp.eye(3, dtype=jnp.int32)
    )
    child = -np.array([float(tree.value[first == slot, 1][0]) for slot in range(3)])
    once = dataclasses.replace(once, q=jnp.diag(jnp.asarray(child, jnp.float32)))
    wanted = np.asarray(optimal_policy(once, columns(per_game(knobs, 3))))
    for slot in range(3):
        came = np.bincount(np.asarray(second)[np.asarray(first) == slot], minlength=3)
        error = 4.0 * (0.25 / came.sum()) ** 0.5
        np.testing.assert_allclose(came / came.sum(), wanted[slot], atol=error)
    assert np.abs(wanted - prior).max() > 0.1
    # And so is the move played, from what it thinks in the end.
    np.testing.assert_allclose(
        np.bincount(decision.slot, minlength=3) / batch,
        np.asarray(decision.policy).mean(axis=0),
        atol=0.015,
    )
