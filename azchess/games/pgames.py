"""P-games: random trees of even breadth and depth, on which UCT was first shown to converge."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32, PRNGKeyArray, UInt32

from azchess.games.game import Game, Moves, Record, Status
from azchess.games.hashing import bits, draw
from azchess.pytree import pytree

EDGE = 1 << 16
"""What the hash of a position is salted with to draw the value of the move that led to it."""


@pytree
class PGamePosition:
    """A position of a P-game: which tree and path it is, what was scored, and how many moves.

    `code` stands for the tree and all moves made, so that a batch may hold as many trees as it has
    games. `total` is the sum of the values of the moves made, positive where MAX is ahead.
    """

    code: UInt32[Array, "*b"]
    total: Int32[Array, "*b"]
    ply: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class PGame(Game):
    """Each move scores points by chance of the draw, and after `plies` moves who is ahead has won.

    Build it with `p_game`. MAX, who moves first (seat 0), scores 0 to 127 with each move, MIN 0 to
    127 for the other side, all alike; equal sums are a draw. Kocsis & Szepesvari 2006, section 3.1,
    after Smith & Nau 1994. The values come from a hash of the start and the moves made, nothing is
    stored; `init` draws a tree. The truth is what `azchess.games.solve` says.
    """

    num_labels: int
    num_slots: int
    plies: int
    name: str = "p-game"
    version: str = "1"
    board: tuple[int, int] = (1, 1)
    num_features: int = 34

    def init(self, key: PRNGKeyArray) -> PGamePosition:
        return PGamePosition(code=jax.random.bits(key), total=jnp.int32(0), ply=jnp.int32(0))

    def step(self, position: PGamePosition, label: Int[Array, ""]) -> PGamePosition:
        code = draw(position.code, 1 + label.astype(jnp.uint32))
        points = (draw(code, jnp.uint32(EDGE)) >> 25).astype(jnp.int32)
        sign = jnp.where(position.ply % 2 == 0, 1, -1)
        return PGamePosition(code=code, total=position.total + sign * points, ply=position.ply + 1)

    def moves(self, position: PGamePosition) -> Moves:
        over = position.ply >= self.plies
        labels = jnp.where(over, -1, jnp.arange(self.num_labels)).astype(jnp.int16)
        return Moves(labels=labels, count=(labels >= 0).sum(dtype=jnp.int32))

    def status(self, position: PGamePosition, moves: Moves) -> Status:
        over = position.ply >= self.plies
        ahead = jnp.sign(position.total) * jnp.where(self.mover(position) == 0, 1, -1)
        return Status(
            terminated=over,
            truncated=jnp.bool_(False),
            outcome=jnp.where(over, ahead, 0).astype(jnp.int8),
        )

    def mover(self, position: PGamePosition) -> Int32[Array, ""]:
        return position.ply % 2

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token: by how much the mover leads, the share of plies played, the bits of the code.

        A lead of 1 is all that one player can score in a game.
        """
        sign = jnp.where(history.ply % 2 == 0, 1, -1)
        lead = sign * history.total / (127.0 * ((self.plies + 1) // 2))
        played = history.ply / self.plies
        return jnp.concatenate([jnp.stack([lead, played], axis=-1), bits(history.code)], axis=-1)


def p_game(labels: int = 2, plies: int = 20) -> PGame:
    """P-games of `labels` moves in every position (the paper's B) and `plies` moves (its D).

    The paper's figure 2 has B = 2, D = 20 and B = 8, D = 8.
    """
    if labels < 1 or plies < 1:
        raise ValueError(f"p_game({labels}, {plies}): both must be at least 1")
    return PGame(num_labels=labels, num_slots=labels, plies=plies)
