"""A small game of moves and dice, without a board: every line and every roll can be counted."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray, UInt32

from azchess.games.game import Game, Moves, Record, Status
from azchess.games.hashing import bits, draw
from azchess.pytree import pytree

TWO_DICE = tuple((2.0 - (one == other)) / 36.0 for one in range(6) for other in range(one + 1))
"""The 21 rolls of two dice (1-1, 2-1, 2-2, 3-1, ...): doubles 1/36, all others 2/36."""

END = 1 << 16
"""What the hash of a position is salted with to draw the result of the game."""


@pytree
class DicePosition:
    """The tree and path as a number, and how many moves and rolls have been made together."""

    code: UInt32[Array, "*b"]
    ply: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class DiceGame(Game):
    """Moves and rolls of the dice take turns, and the last move wins, draws or loses by a hash.

    Build it with `dice_game`. Label `k < choices` is a move; behind these, label `choices + r` is
    the roll `r`, which happens with probability `rolls[r]`. The seats of the moves are `turns`,
    again and again, so that a player may move twice in a row; the mover at a roll is the player
    whose move follows. `plies` counts moves and rolls. `init` draws a tree; the truth is what
    `azchess.games.solve` says.
    """

    num_labels: int
    num_slots: int
    rolls: tuple[float, ...]
    turns: tuple[int, ...]
    plies: int
    name: str = "dice game"
    version: str = "1"
    board: tuple[int, int] = (1, 1)
    num_features: int = 35
    num_outcomes: int = 21

    @property
    def choices(self) -> int:
        """The number of moves in every position of a player."""
        return self.num_labels - len(self.rolls)

    def init(self, key: PRNGKeyArray) -> DicePosition:
        return DicePosition(code=jax.random.bits(key), ply=jnp.int32(0))

    def step(self, position: DicePosition, label: Int[Array, ""]) -> DicePosition:
        code = draw(position.code, 1 + label.astype(jnp.uint32))
        return DicePosition(code=code, ply=position.ply + 1)

    def moves(self, position: DicePosition) -> Moves:
        slots = jnp.arange(self.num_slots)
        choices = jnp.where(slots < self.choices, slots, -1)
        rolls = jnp.where(slots < len(self.rolls), self.choices + slots, -1)
        labels = jnp.where(_rolling(position), rolls, choices)
        labels = jnp.where(position.ply < self.plies, labels, -1).astype(jnp.int16)
        return Moves(labels=labels, count=(labels >= 0).sum(dtype=jnp.int32))

    def chance(self, position: DicePosition, moves: Moves) -> Float[Array, "S"]:
        odds = jnp.zeros(self.num_slots).at[: len(self.rolls)].set(jnp.array(self.rolls))
        return jnp.where(_rolling(position) & moves.legal, odds, 0.0)

    def status(self, position: DicePosition, moves: Moves) -> Status:
        over = position.ply >= self.plies
        first = (draw(position.code, jnp.uint32(END)) % 3).astype(jnp.int32) - 1
        outcome = jnp.where(self.mover(position) == 0, first, -first)
        return Status(
            terminated=over,
            truncated=jnp.bool_(False),
            outcome=jnp.where(over, outcome, 0).astype(jnp.int8),
        )

    def mover(self, position: DicePosition) -> Int32[Array, ""]:
        turn = (position.ply + 1) // 2  # moves made, the one that a roll prepares included
        return jnp.array(self.turns, jnp.int32)[turn % len(self.turns)]

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token: the seat, whether the dice roll, the share of plies, the bits of the code."""
        seat = jax.vmap(self.mover)(history)
        facts = [seat, _rolling(history), history.ply / self.plies]
        facts = [fact.astype(jnp.float32) for fact in facts]
        return jnp.concatenate([jnp.stack(facts, axis=-1), bits(history.code)], axis=-1)


def dice_game(
    choices: int = 3,
    moves: int = 3,
    rolls: tuple[float, ...] = TWO_DICE,
    turns: tuple[int, ...] = (0, 1),
) -> DiceGame:
    """A tree of `moves` moves with `choices` each, and a roll between any two of them.

    By default the players take turns; `turns = (0, 0, 1, 1)` gives each two moves in a row. Raises
    ValueError for rolls that do not add up to 1 and for turns that do not begin with seat 0.
    """
    if choices < 1 or moves < 1:
        raise ValueError(f"dice_game({choices}, {moves}): both must be at least 1")
    if min(rolls, default=-1.0) < 0.0 or not math.isclose(sum(rolls), 1.0, rel_tol=1e-6):
        raise ValueError(f"rolls = {rolls}: must be probabilities that add up to 1")
    if turns[:1] != (0,) or not set(turns) <= {0, 1}:
        raise ValueError(f"turns = {turns}: must be seats 0 and 1, beginning with 0")
    return DiceGame(
        num_labels=choices + len(rolls),
        num_slots=max(choices, len(rolls)),
        num_outcomes=len(rolls),
        rolls=rolls,
        turns=turns,
        plies=2 * moves - 1,
    )


def _rolling(position: DicePosition) -> Bool[Array, "*b"]:
    """The dice choose here: a roll stands between any two moves."""
    return position.ply % 2 == 1
