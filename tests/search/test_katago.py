"""Forced playouts, pruned targets, and what else a policy may learn from a PUCT search."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import hash_game
from azchess.search.edges import Edges
from azchess.search.katago import pruned_visits
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.presets import KATAGO
from azchess.search.puct import Puct, exploration
from search import reference_family as reference

ROOTS, MOVES = 1000, 12
BATCH = 64
GAME = hash_game(8)


@pytest.fixture(scope="module")
def roots():
    """Random roots: visits, priors and values that need not come from any search."""
    rng = np.random.default_rng(0)
    legal = np.arange(MOVES) < rng.integers(1, MOVES + 1, ROOTS)[:, None]
    prior = np.where(legal, rng.dirichlet(0.5 * np.ones(MOVES), ROOTS), 0.0)
    prior /= prior.sum(axis=1, keepdims=True)
    visits = rng.poisson(rng.uniform(0, 60, (ROOTS, 1)) * prior + 1.5) * legal
    visits[:, 0] += visits.sum(axis=1) == 0
    return Edges(
        legal=jnp.asarray(legal),
        prior=jnp.asarray(prior, jnp.float32),
        visits=jnp.asarray(visits, jnp.int32),
        in_flight=jnp.int32(0),
        q=jnp.asarray(np.where(visits > 0, rng.uniform(-1, 1, visits.shape), 0), jnp.float32),
        value=jnp.zeros(ROOTS),
        depth=jnp.zeros(ROOTS, jnp.int32),
    )


@pytest.fixture(scope="module")
def pruned(roots):
    """The visits that are left of each root, and its knobs."""
    rng = np.random.default_rng(1)
    knobs = SearchKnobs(
        forced_visits=jnp.asarray(rng.choice([0.5, 2.0, 8.0], ROOTS)),
        c_init=jnp.asarray(rng.uniform(0.5, 2.0, ROOTS)),
        c_factor=0.5,
        c_base=100.0,
    )
    knobs = columns(per_game(knobs, ROOTS))
    return np.asarray(pruned_visits(roots, exploration(roots, knobs), knobs)), knobs


def plain(roots, knobs, row):
    """One root as the plain search has it, and its knobs."""
    count = int(roots.legal[row].sum())
    visits = roots.visits[row, :count].tolist()
    q = np.asarray(roots.q[row, :count], np.float64)
    node = reference.Node(
        labels=list(range(count)),
        prior=np.asarray(roots.prior[row, :count], np.float64).tolist(),
        value=0.0,
        draw=0.0,
        moves_left=0.0,
        finished=False,
        solved=False,
        mover=0,
        visits=visits,
        total=(q * visits).tolist(),
    )
    squeezed = jax.tree.map(lambda knob: knob[:, 0], knobs)
    return node, reference.knobs_of(squeezed, row, root=True)


@pytest.mark.fast
def test_pruning_takes_off_one_visit_after_another_as_long_as_the_best_move_stays_ahead(
    roots, pruned
):
    left, knobs = pruned
    compared = changed = 0
    for row in range(ROOTS):
        node, own = plain(roots, knobs, row)
        wanted, risk = reference.pruned(node, own)
        if risk > 1e-4:
            assert left[row, : len(wanted)].tolist() == wanted
            compared += 1
            changed += wanted != node.visits
    assert compared > 0.9 * ROOTS
    assert changed > 0.5 * ROOTS


@pytest.mark.fast
def test_pruning_keeps_the_best_move_and_takes_no_more_than_was_forced(roots, pruned):
    left, knobs = pruned
    visits, prior = np.asarray(roots.visits), np.asarray(roots.prior)
    q, bonus = np.asarray(roots.q), np.asarray(exploration(roots, knobs))
    most = visits == visits.max(axis=1, keepdims=True)
    assert (left <= visits).all()
    assert ((left == visits) & most).any(axis=1).all()
    forced = np.sqrt(np.asarray(knobs.forced_visits) * prior * visits.sum(axis=1, keepdims=True))
    lone = (left == 0) & (visits > 0)
    assert (visits - left <= forced + lone + 1e-3).all()
    assert not ((left == 1) & (visits > 1)).any()
    # What was taken off never lifts a move over the best one's score.
    score = q + bonus * prior / (1 + left)
    best = np.where(most, q + bonus * prior / (1 + visits), -np.inf).max(axis=1, keepdims=True)
    assert (score <= best + 1e-4)[(left < visits) & ~lone].all()


def test_without_forced_playouts_nothing_is_pruned(roots):
    knobs = columns(per_game(SearchKnobs(), ROOTS))
    left = pruned_visits(roots, exploration(roots, knobs), knobs)
    np.testing.assert_array_equal(left, roots.visits)


@pytest.fixture(scope="module")
def searches():
    """Decisions of the same noisy searches by target."""
    keys = jax.random.split(jax.random.key(1), BATCH)
    positions = jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), BATCH))
    preset = dataclasses.replace(KATAGO, search=dataclasses.replace(KATAGO.search, simulations=96))
    knobs = dataclasses.replace(preset.knobs, noise_total=2.0, c_visit=20.0, c_scale=0.3)
    assert isinstance(preset.search, Puct)
    decisions = {}
    for target in ("visits", "pruned", "completed_q"):
        search = dataclasses.replace(preset.search, target=target)
        run = reference.searched(search, GAME)
        decisions[target] = jax.device_get(run(1.0, keys, positions, knobs)[0])
    return decisions, knobs


def test_the_target_changes_neither_the_search_nor_the_move(searches):
    decisions, _ = searches
    for target in ("pruned", "completed_q"):
        for name in ("slot", "visits", "q", "value"):
            np.testing.assert_array_equal(
                getattr(decisions[target], name), getattr(decisions["visits"], name), name
            )
    for decision in decisions.values():
        np.testing.assert_allclose(decision.policy.sum(axis=1), 1.0, atol=1e-5)


def test_pruned_targets_hold_less_of_moves_that_noise_has_raised_in_vain(searches):
    decisions, _ = searches
    decision = decisions["visits"]
    raised = decision.prior > decision.network_prior
    raised &= np.arange(raised.shape[1]) != decision.slot[:, None]
    plain, less = ((decisions[t].policy * raised).sum(axis=1) for t in ("visits", "pruned"))
    fall = plain - less
    assert fall.mean() > 2 * fall.std() / BATCH**0.5


def test_every_visited_move_of_the_root_gets_its_forced_playouts(searches):
    decision = searches[0]["visits"]
    forced = np.sqrt(2.0 * decision.prior * 96)
    visited = decision.visits > 0
    assert (decision.visits >= forced - 1.0)[visited].all()


def test_the_completed_q_target_is_that_of_the_paper_with_the_networks_own_prior(searches):
    decisions, knobs = searches
    decision = decisions["completed_q"]
    p, n, q = (
        np.asarray(x, np.float64) for x in (decision.network_prior, decision.visits, decision.q)
    )
    total = n.sum(axis=1)
    own = decision.value * (1 + total) - (n * q).sum(axis=1)
    weight = p * (n > 0)
    mean = (weight * q).sum(axis=1) / weight.sum(axis=1)
    mixed = (own + total * mean) / (1 + total)
    completed = np.where(n > 0, q, mixed[:, None])
    sigma = (knobs.c_visit + n.max(axis=1, keepdims=True)) * knobs.c_scale * (completed + 1) / 2
    power = p * np.exp(sigma - sigma.max(axis=1, keepdims=True))
    np.testing.assert_allclose(decision.policy, power / power.sum(axis=1, keepdims=True), atol=1e-5)
