"""UCB1 and UCB1-Tuned on Bernoulli bandits, in numpy and float64, many runs at once.

Auer, Cesa-Bianchi & Fischer 2002, "Finite-time analysis of the multiarmed bandit problem",
figure 1 and section 4.
"""

from collections.abc import Callable

import numpy as np

PROBLEMS = {
    1: (0.9, 0.6),
    2: (0.9, 0.8),
    3: (0.55, 0.45),
    11: (0.9, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6),
    12: (0.9, 0.8, 0.8, 0.8, 0.7, 0.7, 0.7, 0.6, 0.6, 0.6),
    13: (0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8),
    14: (0.55, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45),
}

Score = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""`(pulls, wins, plays so far) -> score`, all arms having been pulled; rewards are 0 or 1."""


def ucb1(pulls: np.ndarray, wins: np.ndarray, plays: int) -> np.ndarray:
    """The mean plus sqrt(2 ln n / n_j)."""
    return wins / pulls + np.sqrt(2.0 * np.log(plays) / pulls)


def ucb1_tuned(pulls: np.ndarray, wins: np.ndarray, plays: int) -> np.ndarray:
    """The mean plus sqrt(ln n / n_j min(1/4, V_j)), V_j the variance plus sqrt(2 ln n / n_j)."""
    mean = wins / pulls
    variance = mean - mean**2  # of rewards 0 and 1, whose squares are themselves
    rate = np.log(plays) / pulls
    return mean + np.sqrt(rate * np.minimum(0.25, variance + np.sqrt(2.0 * rate)))


def pulls(score: Score, means: np.ndarray, plays: int, seed: int = 0) -> np.ndarray:
    """How often each arm of machines `[..., K]` was pulled in so many plays.

    Each arm is pulled once, in order; from then on the one of highest score, the first of equals.
    """
    random = np.random.default_rng(seed)
    count = np.ones(means.shape)
    wins = (random.random(means.shape) < means).astype(np.float64)
    for played in range(means.shape[-1], plays):
        arm = score(count, wins, played).argmax(axis=-1)[..., None]
        win = random.random(arm.shape) < np.take_along_axis(means, arm, axis=-1)
        np.put_along_axis(count, arm, np.take_along_axis(count, arm, axis=-1) + 1, axis=-1)
        np.put_along_axis(wins, arm, np.take_along_axis(wins, arm, axis=-1) + win, axis=-1)
    return count


def regret(count: np.ndarray, means: np.ndarray) -> np.ndarray:
    """What the pulls cost against pulling the best arm alone, in expected rewards."""
    return (count * (means.max(axis=-1, keepdims=True) - means)).sum(axis=-1)
