"""Two small games whose truth is known, to test searches and learning against."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray, UInt32

from azchess.games.game import Game, Moves, Record, Status, moves_of
from azchess.games.hashing import bits, draw, share
from azchess.pytree import pytree


@pytree
class Heap:
    """What is left of a heap of stones, and how many moves have been made."""

    stones: Int32[Array, "*b"]
    ply: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class Subtraction(Game):
    """A heap of stones: the players take some in turn, and who takes the last one wins.

    Build it with `subtraction`. Label `k` takes `k + 1` stones, at most `num_labels`; a game starts
    from the whole heap of `board[1]` stones, or from 1 to that many, drawn at random, if `varied`.

    The truth (Bouton 1901): the mover loses where the stones left are a multiple of
    `num_labels + 1`, and wins elsewhere by taking the remainder, and in no other way.
    """

    board: tuple[int, int]
    num_labels: int
    num_slots: int
    varied: bool = False
    num_features: int = 1
    name: str = "subtraction"
    version: str = "1"

    def worth(self, stones: Int[Array, "*b"]) -> Int32[Array, "*b"]:
        """The truth: +1 where the mover wins, -1 where the mover loses."""
        return jnp.where(stones % (self.num_labels + 1) == 0, -1, 1).astype(jnp.int32)

    def init(self, key: PRNGKeyArray) -> Heap:
        stones = jnp.int32(self.board[1])
        if self.varied:
            stones = jax.random.randint(key, (), 1, self.board[1] + 1)
        return Heap(stones=stones, ply=jnp.int32(0))

    def step(self, position: Heap, label: Int[Array, ""]) -> Heap:
        return Heap(stones=position.stones - label - 1, ply=position.ply + 1)

    def moves(self, position: Heap) -> Moves:
        labels = jnp.arange(self.num_slots)
        labels = jnp.where(labels < position.stones, labels, -1).astype(jnp.int16)
        return Moves(labels=labels, count=(labels >= 0).sum(dtype=jnp.int32))

    def status(self, position: Heap, moves: Moves) -> Status:
        over = position.stones <= 0
        return Status(
            terminated=over,
            truncated=jnp.bool_(False),
            outcome=jnp.where(over, -1, 0).astype(jnp.int8),
        )

    def mover(self, position: Heap) -> Int32[Array, ""]:
        return position.ply % 2

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token per place of the full heap: 1 where a stone lies."""
        there = jnp.arange(self.board[1]) < history.stones[0]
        return there[:, None].astype(jnp.float32)


def subtraction(stones: int = 12, most: int = 3, varied: bool = False) -> Subtraction:
    """The game of `stones` stones of which a move takes 1 to `most`."""
    if stones < 1 or most < 1:
        raise ValueError(f"subtraction({stones}, {most}): both must be at least 1")
    return Subtraction(board=(1, stones), num_labels=most, num_slots=most, varied=varied)


@pytree
class Code:
    """A position of `HashGame`: a number that stands for all moves made, and how many they are."""

    code: UInt32[Array, "*b"]
    ply: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class HashGame(Game):
    """A game tree drawn by a hash of the moves made: any shape of tree, nothing to understand.

    Build it with `hash_game`. Each label is legal in a share `legal` of the positions (one label
    always is), a position is the end of the game in a share `ends` of them and at the latest after
    `plies` moves, and its outcome is a win, a draw or a loss alike. The truth is what minimax says.
    """

    num_labels: int
    num_slots: int
    legal: float = 1.0
    ends: float = 0.0
    plies: int | None = None
    name: str = "hash game"
    version: str = "1"
    board: tuple[int, int] = (1, 1)
    num_features: int = 32

    def init(self, key: PRNGKeyArray) -> Code:
        return Code(code=jax.random.bits(key), ply=jnp.int32(0))

    def step(self, position: Code, label: Int[Array, ""]) -> Code:
        return Code(code=draw(position.code, 1 + label.astype(jnp.uint32)), ply=position.ply + 1)

    def moves(self, position: Code) -> Moves:
        labels = jnp.arange(self.num_labels, dtype=jnp.uint32)
        code = position.code
        legal = share(draw(code, labels + 1000)) < self.legal
        legal |= labels == draw(code, jnp.uint32(999)) % self.num_labels
        legal &= ~self._over(position)
        return moves_of(legal, self.num_slots)

    def _over(self, position: Code) -> Bool[Array, ""]:
        early = share(draw(position.code, jnp.uint32(998))) < self.ends
        over = early & (position.ply > 0)
        return over if self.plies is None else over | (position.ply >= self.plies)

    def status(self, position: Code, moves: Moves) -> Status:
        outcome = (draw(position.code, jnp.uint32(997)) % 3).astype(jnp.int32) - 1
        over = self._over(position)
        return Status(
            terminated=over,
            truncated=jnp.bool_(False),
            outcome=jnp.where(over, outcome, 0).astype(jnp.int8),
        )

    def mover(self, position: Code) -> Int32[Array, ""]:
        return position.ply % 2

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token: the bits of the code."""
        return bits(history.code)


def hash_game(
    labels: int = 8, legal: float = 1.0, ends: float = 0.0, plies: int | None = None
) -> HashGame:
    """A random game tree with that many labels; by default all are legal and no game ends."""
    return HashGame(num_labels=labels, num_slots=labels, legal=legal, ends=ends, plies=plies)
