"""UCT reproduces what was published of bandits and of P-games."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.bandits import AUER, bandit
from azchess.games.pgames import p_game
from azchess.games.solve import solve
from azchess.networks.rollouts import rollout_evaluator
from azchess.search.knobs import SearchKnobs
from azchess.search.uct import Uct
from search.bandits_reference import pulls, regret, ucb1, ucb1_tuned
from search.p_games_reference import failures

PLAYS, RUNS = 1000, 60
RULES = {"ucb1": (False, math.sqrt(8.0), ucb1), "tuned": (True, 1.0, ucb1_tuned)}


@functools.cache
def regrets(rule, arms):
    """Per problem the regrets of the search and of the reference, `[RUNS]` each."""
    tuned, c, reference = RULES[rule]
    numbers = [number for number, means in AUER.items() if len(means) == arms]
    means = np.array([AUER[number] for number in numbers]).repeat(RUNS, axis=0)
    game = bandit(arms=arms)
    evaluate, search = rollout_evaluator(game), Uct(PLAYS, tuned=tuned)
    positions = jax.vmap(game.start)(jnp.asarray(means, jnp.float32))
    keys = jax.random.split(jax.random.key(0), len(means))
    knobs = SearchKnobs(c_uct=c)
    decide = jax.jit(lambda keys: search(game, evaluate, None, keys, positions, knobs))
    visits = np.asarray(decide(keys).visits)[:, :arms]
    assert (visits.sum(axis=1) == PLAYS).all()
    both = [regret(visits, means), regret(pulls(reference, means, PLAYS, seed=1), means)]
    return {
        number: [found.reshape(-1, RUNS)[index] for found in both]
        for index, number in enumerate(numbers)
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", AUER)
@pytest.mark.parametrize("rule", RULES)
def test_regrets_are_those_of_the_bandit_rule(rule, number):
    """At the root of a bandit each simulation is a play: the dice fall anew at each visit."""
    ours, theirs = regrets(rule, len(AUER[number]))[number]
    error = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / RUNS)
    assert abs(ours.mean() - theirs.mean()) < max(0.1 * theirs.mean(), 3.0 * error)


@pytest.mark.slow
@pytest.mark.parametrize("number", AUER)
def test_the_tuned_rule_regrets_less(number):
    plain, _ = regrets("ucb1", len(AUER[number]))[number]
    tuned, _ = regrets("tuned", len(AUER[number]))[number]
    error = math.sqrt((plain.var(ddof=1) + tuned.var(ddof=1)) / RUNS)
    assert plain.mean() - tuned.mean() > 3.0 * error


TREES, GAMES = 200, 5
P_GAME = p_game(2, 12)


@functools.cache
def p_games():
    """Trees where a wrong root move exists, each several times, and which moves are right."""
    positions = jax.vmap(P_GAME.init)(jax.random.split(jax.random.key(0), 3 * TREES))
    best = solve(P_GAME, positions).best
    kept = np.flatnonzero(~best.all(axis=1))[:TREES].repeat(GAMES)
    assert len(kept) == TREES * GAMES
    return jax.tree.map(lambda leaf: leaf[kept], positions), best[kept]


@functools.cache
def failure_rates(search, rollouts=1):
    """`simulations -> failure rate of each tree [TREES]`."""
    positions, best = p_games()
    evaluate = rollout_evaluator(P_GAME, rollouts)
    keys = jax.random.split(jax.random.key(100), len(best))

    @jax.jit
    def decide(budget):
        knobs = SearchKnobs(c_uct=2.0, budget=budget)
        return search(P_GAME, evaluate, None, keys, positions, knobs).label

    def rates(simulations):
        label = np.asarray(decide(jnp.float32(simulations)))
        return 1.0 - best[np.arange(len(best)), label].reshape(TREES, GAMES).mean(axis=1)

    return rates


@pytest.mark.slow
@pytest.mark.parametrize(("simulations", "most"), [(100, 0.09), (1000, 0.005)])
def test_uct_fails_on_p_games_as_seldom_as_published(simulations, most):
    search = Uct(1000, bias="depth", choose="value", ties="random")
    assert failure_rates(search)(simulations).mean() <= most


@pytest.mark.slow
@pytest.mark.parametrize("simulations", [30, 100, 316])
def test_uct_fails_on_p_games_as_often_as_a_plain_program_does(simulations):
    search = Uct(1000, bias="depth", choose="value", ties="random")
    ours = failure_rates(search)(simulations)
    plain = np.array(failures(2, 12, simulations, 2.0, trees=500), float)
    error = math.sqrt(ours.var(ddof=1) / TREES + plain.var(ddof=1) / len(plain))
    assert 0.0 < ours.mean() < 0.3
    assert abs(ours.mean() - plain.mean()) < 3.0 * error


@pytest.mark.slow
def test_random_games_without_a_tree_go_on_failing_on_p_games():
    flat = Uct(2, choose="value")  # each root move is worth the mean of its random games
    few, many = (failure_rates(flat, rollouts)(2).mean() for rollouts in (50, 500))
    deep = failure_rates(Uct(1000, bias="depth", choose="value", ties="random"))(1000).mean()
    assert few > 0.05
    assert many > 0.05
    assert deep < many / 4
