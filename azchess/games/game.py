"""What search, self-play and replay need of a game: a few pure functions and static sizes."""

import abc
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int16, Int32, PRNGKeyArray

from azchess.pytree import pytree

Position: TypeAlias = Any
"""A pytree of arrays: the slim board of one game, with what its rules must remember."""

Record: TypeAlias = Any
"""A pytree of arrays: one ply as replay stores it, packed; all zeros stands for "no board"."""


@pytree
class Moves:
    """The legal moves of a position, one per slot.

    `labels` `[S]` holds the label of each legal move in the order of the game's generator, -1 in
    the slots behind them. `count` is the true number of legal moves: where it exceeds S, the
    game's `num_slots` is too small for the position and moves are missing.
    """

    labels: Int16[Array, "*b S"]
    count: Int32[Array, "*b"]

    @property
    def legal(self) -> Bool[Array, "*b S"]:
        """True in the slots that hold a move."""
        return self.labels >= 0


@pytree
class Status:
    """Whether a game is over, and how, as the player to move sees it.

    `terminated`: over by the rules. `truncated`: cut by a ply cap, which is neither a draw nor an
    end by the rules. `outcome`: +1 the mover has won, -1 the mover has lost (checkmate), 0 drawn
    or not over.
    """

    terminated: Bool[Array, "*b"]
    truncated: Bool[Array, "*b"]
    outcome: Int8[Array, "*b"]

    @property
    def over(self) -> Bool[Array, "*b"]:
        """True where no further move is played."""
        return self.terminated | self.truncated


@pytree
class Symmetries:
    """G relabellings of a game, the first of them the identity.

    Square `q` of the original board goes to `squares[g, q]`, label `a` to `labels[g, a]`.
    """

    squares: Int16[np.ndarray, "G Q"]
    labels: Int16[np.ndarray, "G A"]


class Game(abc.ABC):
    """A two-player zero-sum game of perfect information as pure functions of one position.

    Implementations are frozen dataclasses (hashable, static under jit); every method works on one
    game and is mapped over batches with `jax.vmap`. Everything is seen from the mover, the player
    to move; `mover` says which of the two seats that is.
    """

    name: str
    version: str
    board: tuple[int, int]
    """Rows and columns; Q = rows x columns squares, one network token each."""
    num_labels: int
    """A, the size of the policy head's fixed move space."""
    num_slots: int
    """S, the most legal moves that any position of this game may have."""
    num_features: int
    """F, the features of each token."""
    num_boards: int = 1
    """H, how many boards (the newest first) a network sees."""
    num_outcomes: int = 0
    """K, the most outcomes of the dice at a chance node; 0 for a game without chance."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray) -> Position:
        """The start position of a new game."""

    @abc.abstractmethod
    def step(self, position: Position, label: Int[Array, ""]) -> Position:
        """The position after a move, which must be legal; seen from the other player."""

    @abc.abstractmethod
    def moves(self, position: Position) -> Moves:
        """The legal moves, by the rules of movement alone: a drawn position may still have some."""

    @abc.abstractmethod
    def status(self, position: Position, moves: Moves) -> Status:
        """Whether the game is over here; `moves` are those of `position`."""

    @abc.abstractmethod
    def mover(self, position: Position) -> Int32[Array, ""]:
        """The seat to move: 0 is the player who makes the first move of the game, 1 the other."""

    def chance(self, position: Position, moves: Moves) -> Float[Array, "S"]:
        """The probability of each of `moves` where the dice choose; all 0 where a player does.

        At a chance node the moves are the outcomes of the dice, in the first K slots; `step` makes
        one happen, and the mover is the player who will act on it.
        """
        del position
        return jnp.zeros(moves.labels.shape, jnp.float32)

    def recurrence(self, position: Position) -> Int32[Array, ""]:
        """Plies since this very position last stood on the board; 0 where it never did.

        By default always 0, as in games in which no position can come back.
        """
        del position
        return jnp.int32(0)

    def history(self, position: Position) -> Record:
        """The last H plies as records `[H]`, the newest first, zeros where there was none.

        By default a record is the whole position, and H is 1.
        """
        return jax.tree.map(lambda leaf: leaf[None], position)

    def record(self, position: Position) -> Record:
        """The last ply alone, as replay stores it."""
        return jax.tree.map(lambda leaf: leaf[0], self.history(position))

    def position(self, record: Record) -> Position:
        """The position of one record, without a past; by default the record itself."""
        return record

    @abc.abstractmethod
    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """The network's input for records `[H]`, the newest first, seen from the mover."""

    @property
    def ranks(self) -> Int32[np.ndarray, "A"]:
        """Breaks ties in search after the prior: the label of lower rank goes first."""
        return np.arange(self.num_labels, dtype=np.int32)

    @property
    def notation_ranks(self) -> Int32[np.ndarray, "2 A"]:
        """Like `ranks`, but by how the moves of either seat are written; by default the ranks.

        A written move names the squares of the real board, so that the order of the same labels may
        depend on who moves.
        """
        return np.stack([self.ranks, self.ranks])

    @property
    def geometry(self) -> Int16[np.ndarray, "A 3"]:
        """From-square, to-square and kind of each label, for a policy head that reads the board.

        Kinds tell labels with equal squares apart (promotions to different pieces); the plain
        kind is 0. By default labels say nothing about the board: each is a kind of its own.
        """
        labels = np.arange(self.num_labels)
        return np.stack([0 * labels, 0 * labels, labels], axis=1).astype(np.int16)

    @property
    def symmetries(self) -> Symmetries:
        """The relabellings that may leave the rules unchanged; by default the identity alone."""
        squares = self.board[0] * self.board[1]
        return Symmetries(
            squares=np.arange(squares, dtype=np.int16)[None],
            labels=np.arange(self.num_labels, dtype=np.int16)[None],
        )

    def symmetric(self, record: Record) -> Bool[Array, "G"]:
        """Which of `symmetries` hold for this position (the identity always does)."""
        del record
        return jnp.ones((self.symmetries.squares.shape[0],), bool)


def moves_of(mask: Bool[Array, "A"], num_slots: int) -> Moves:
    """The legal moves in the order of their labels, from a mask over all labels."""
    labels = jnp.nonzero(mask, size=num_slots, fill_value=-1)[0]
    return Moves(labels=labels.astype(jnp.int16), count=mask.sum(dtype=jnp.int32))


def relative_sign(mover: Int32[Array, "*b"], viewer: Int32[Array, "*b"]) -> Float[Array, "*b"]:
    """+1 where the viewer is the mover, -1 where the viewer is the opponent.

    The one place where a value changes sides: `relative_sign(mover, viewer) * value` is the
    mover's value as the viewer sees it.
    """
    return jnp.where(mover == viewer, 1.0, -1.0)
