"""Bandits: games of one move, which wins as often as the arm of a machine pays."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray

from azchess.games.game import Game, Moves, Record, Status
from azchess.pytree import pytree

AUER = {
    1: (0.9, 0.6),
    2: (0.9, 0.8),
    3: (0.55, 0.45),
    11: (0.9,) + (0.6,) * 9,
    12: (0.9,) + (0.8,) * 3 + (0.7,) * 3 + (0.6,) * 3,
    13: (0.9,) + (0.8,) * 9,
    14: (0.55,) + (0.45,) * 9,
}
"""The seven problems of Auer, Cesa-Bianchi & Fischer 2002, section 4, under their numbers."""

UNKNOWN = -1


@pytree
class Machine:
    """A machine with K arms, which of them was pulled, and whether it paid.

    `means` holds each arm's probability of a win. `arm` is -1 before the pull, `paid` is -1 before
    the game is over, then 1 (a win for who pulled) or 0.
    """

    means: Float[Array, "*b K"]
    arm: Int32[Array, "*b"]
    paid: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class Bandit(Game):
    """The player who moves first pulls one of K arms, the dice decide, and the game is over.

    Build it with `bandit`. Label `k < K` pulls arm `k`; at the chance node behind it, label K is a
    loss and label K + 1 a win for the player who pulled. That player is seat 0, and after the pull
    seat 1 is the mover: an arm of mean p is worth 2p - 1 to seat 0 and 1 - 2p to the mover behind
    it.
    """

    num_labels: int
    num_slots: int
    means: tuple[float, ...] | None
    num_features: int
    name: str = "bandit"
    version: str = "1"
    board: tuple[int, int] = (1, 1)
    num_outcomes: int = 2

    @property
    def arms(self) -> int:
        """K, the number of arms."""
        return self.num_labels - 2

    def start(self, means: Float[Array, "K"]) -> Machine:
        """The start of a game at a machine with these means."""
        return Machine(means=means, arm=jnp.int32(UNKNOWN), paid=jnp.int32(UNKNOWN))

    def init(self, key: PRNGKeyArray) -> Machine:
        """The machine of `means`; where there are none, one with means drawn from 0 to 1."""
        if self.means is not None:
            return self.start(jnp.array(self.means, jnp.float32))
        return self.start(jax.random.uniform(key, (self.arms,)))

    def step(self, position: Machine, label: Int[Array, ""]) -> Machine:
        label = label.astype(jnp.int32)
        pull = position.arm < 0
        return Machine(
            means=position.means,
            arm=jnp.where(pull, label, position.arm),
            paid=jnp.where(pull, UNKNOWN, label - self.arms),
        )

    def moves(self, position: Machine) -> Moves:
        slots = jnp.arange(self.num_slots)
        arms = jnp.where(slots < self.arms, slots, -1)
        results = jnp.where(slots < 2, self.arms + slots, -1)
        labels = jnp.where(position.arm < 0, arms, results)
        labels = jnp.where(position.paid < 0, labels, -1).astype(jnp.int16)
        return Moves(labels=labels, count=(labels >= 0).sum(dtype=jnp.int32))

    def chance(self, position: Machine, moves: Moves) -> Float[Array, "S"]:
        mean = position.means[jnp.maximum(position.arm, 0)]
        odds = jnp.where(moves.labels == self.arms + 1, mean, 1.0 - mean)
        return jnp.where(_rolling(position) & moves.legal, odds, 0.0)

    def status(self, position: Machine, moves: Moves) -> Status:
        over = position.paid >= 0
        # Seat 1 is the mover now, and what paid to seat 0 is lost to it.
        return Status(
            terminated=over,
            truncated=jnp.bool_(False),
            outcome=jnp.where(over, 1 - 2 * position.paid, 0).astype(jnp.int8),
        )

    def mover(self, position: Machine) -> Int32[Array, ""]:
        return (position.arm >= 0).astype(jnp.int32)

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token: the means, which arm was pulled, and whether it lost or paid."""
        arm = jax.nn.one_hot(history.arm, self.arms)
        return jnp.concatenate([history.means, arm, jax.nn.one_hot(history.paid, 2)], axis=-1)


def bandit(means: tuple[float, ...] | None = None, arms: int | None = None) -> Bandit:
    """A machine with these means, such as `AUER[12]`; or with `arms` means drawn for each game.

    Raises ValueError for means outside [0, 1], and unless just one of the two is given.
    """
    if (means is None) == (arms is None):
        raise ValueError(f"bandit(means={means}, arms={arms}): give one of the two")
    if means is not None and not all(0.0 <= mean <= 1.0 for mean in means):
        raise ValueError(f"bandit({means}): means must be from 0 to 1")
    count = arms if means is None else len(means)
    if not count or count < 1:
        raise ValueError(f"bandit(means={means}, arms={arms}): there must be at least 1 arm")
    return Bandit(
        num_labels=count + 2,
        num_slots=max(count, 2),
        means=None if means is None else tuple(means),
        num_features=2 * count + 2,
    )


def left_or_right() -> Bandit:
    """One move, and the game is over: Left wins 70 % of the time and Right 30 %.

    Label 0 is Left, worth +0.4 to its player, label 1 is Right, worth -0.4.
    """
    return dataclasses.replace(bandit((0.7, 0.3)), name="left or right")


def _rolling(position: Machine) -> Bool[Array, ""]:
    """An arm was pulled, and the dice are still rolling."""
    return (position.arm >= 0) & (position.paid < 0)
