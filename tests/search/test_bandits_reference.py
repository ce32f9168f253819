"""The reference of UCB1 and UCB1-Tuned has the regrets that were known before it was written."""

import functools

import numpy as np
import pytest

from azchess.games.bandits import AUER
from search.bandits_reference import PROBLEMS, pulls, regret, ucb1, ucb1_tuned

# Regret after 10,000 plays, a mean over 100 runs of an earlier implementation.
KNOWN = {
    1: (46.3, 7.2),
    2: (92.1, 18.4),
    3: (85.5, 16.4),
    11: (415.1, 60.5),
    12: (540.5, 102.5),
    13: (595.6, 153.6),
    14: (597.1, 139.8),
}


@functools.cache
def regrets(score):
    """The regrets of 100 runs of each problem."""
    found = {}
    for arms in (2, 10):
        numbers = [number for number, means in PROBLEMS.items() if len(means) == arms]
        means = np.array([PROBLEMS[number] for number in numbers])[:, None].repeat(100, axis=1)
        found |= zip(numbers, regret(pulls(score, means, 10_000), means), strict=True)
    return found


def test_the_seven_problems_are_those_of_the_package():
    assert PROBLEMS == AUER


@pytest.mark.parametrize("number", PROBLEMS)
def test_regrets_are_the_known_ones(number):
    for score, known in zip((ucb1, ucb1_tuned), KNOWN[number], strict=True):
        runs = regrets(score)[number]
        error = runs.std(ddof=1) / 100**0.5
        assert abs(runs.mean() - known) < max(0.1 * known, 3 * error)
        assert error < 0.1 * known


@pytest.mark.parametrize("number", PROBLEMS)
def test_the_tuned_rule_has_less_than_half_the_regret(number):
    assert regrets(ucb1_tuned)[number].mean() < regrets(ucb1)[number].mean() / 2


@pytest.mark.fast
def test_scores_are_the_formulas_worked_out_by_hand():
    pulled, wins = np.array([4.0, 100.0]), np.array([1.0, 99.0])
    # ln 104 = 4.6444: .25 + sqrt(2 * 4.6444 / 4) and .99 + sqrt(2 * 4.6444 / 100).
    np.testing.assert_allclose(ucb1(pulled, wins, 104), [1.77387, 1.29478], atol=1e-5)
    # The first arm's variance is above 1/4 with its bonus, the second's is .0099 + .30478.
    np.testing.assert_allclose(
        ucb1_tuned(pulled, wins, 104), [0.25 + 0.53877, 0.99 + 0.10776], atol=1e-5
    )
    second = ucb1_tuned(np.array([1e4, 1e4]), np.array([9e3, 9e3]), 20_000)
    np.testing.assert_allclose(second[0], 0.9 + np.sqrt(9.90349e-4 * (0.09 + 0.044505)), atol=1e-6)


@pytest.mark.fast
def test_every_play_pulls_an_arm():
    means = np.array([[0.5, 0.2, 0.9]])
    count = pulls(ucb1, means, 500)
    assert count.sum() == 500
    assert count.min() >= 1
    assert regret(count, means)[0] == pytest.approx(0.4 * count[0, 0] + 0.7 * count[0, 1])
