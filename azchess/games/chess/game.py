"""Chess as search, self-play and replay see it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int16, Int32, PRNGKeyArray

from azchess.games.chess import labels, movement, rules
from azchess.games.chess import tokens as features
from azchess.games.chess.position import Position, Record, start, unpack
from azchess.games.chess.rules import Ending
from azchess.games.game import Game, Moves, Status, Symmetries

LIMITS = {
    "num_slots": (1, labels.NUM_LABELS),
    "num_boards": (1, 1_000),
    "max_plies": (1, 32_000),
    "repetition": (2, 100),
    "quiet_plies": (1, 32_000),
    "memory": (1, 32_000),
}
"""What the options of the game may be; records count in 8 and 16 bits."""


@dataclasses.dataclass(frozen=True)
class ChessGame(Game):
    """Chess by the laws of FIDE, or Chess960; by default with the draws of a tournament.

    num_slots: the most legal moves of one position; 218 is the most that any game can reach,
        endings need fewer.
    num_boards: H, how many boards the network sees.
    max_plies: a game that is not over after so many plies is cut (truncated); None never cuts.
    chess960: games begin at one of the 960 starts, each as likely; a castling move is written as
        the king's way to its rook (label and UCI), not as the king's two steps.
    repetition: the occurrence of a position that ends the game as a draw: 3 as players claim it,
        5 as an arbiter must stop it (9.6.1), None for no such rule.
    quiet_plies: a draw after so many plies without a capture or a pawn move: 100 as players claim
        it, 150 as an arbiter must stop it (9.6.2), None for no such rule.
    memory: how many earlier positions are compared for repetitions; None stands for `quiet_plies`,
        which is all that can be repeated (150 where there is no such rule). With fewer, repetitions
        of older positions are missed, which endings can afford.
    """

    num_slots: int = 218
    num_boards: int = 1
    max_plies: int | None = None
    chess960: bool = False
    repetition: int | None = 3
    quiet_plies: int | None = 100
    memory: int | None = None

    name = "chess"
    version = "1"
    board = (8, 8)
    num_labels = labels.NUM_LABELS

    def __post_init__(self) -> None:
        for field, (least, most) in LIMITS.items():
            value = getattr(self, field)
            if value is None and field not in ("num_slots", "num_boards"):
                continue
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(
                    f"ChessGame.{field} is {value}, but must be a whole number from {least} to "
                    f"{most}"
                )

    @property
    def remembered(self) -> int:
        """M, how many earlier positions are compared for repetitions."""
        return self.memory or self.quiet_plies or 150

    @property
    def num_features(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """F, the features of each token: 14 per board and 6."""
        return features.num_features(self.num_boards)

    def init(self, key: PRNGKeyArray) -> Position:
        """The start position; in Chess960 the key draws one of 960."""
        if self.chess960:
            return self.position(start(jax.random.randint(key, (), 0, 960)))
        return self.position(start())

    def step(self, position: Position, label: Int[Array, ""]) -> Position:
        """The position after a legal move, seen from the other player."""
        before = position.now
        now = rules.play(before, label, self.chess960)
        index = jnp.arange(self.remembered)
        slot = index == before.clock % self.remembered
        seen = jnp.where(slot[:, None], position.hash, position.seen)
        name = rules.identity(now)
        again = (seen == name).all(axis=-1) & (index < now.clock)
        now = dataclasses.replace(now, repetitions=(1 + again.sum()).astype(jnp.int8))
        past = position.past
        if past is not None:
            past = jax.tree.map(
                lambda new, old: jnp.concatenate([new[None], old[:-1]]), before, past
            )
        return Position(now=now, past=past, hash=name, seen=seen)

    def moves(self, position: Position) -> Moves:
        """The legal moves; a position that is drawn by the rules still has them."""
        return movement.slots(movement.targets(position.now, self.chess960), self.num_slots)

    def ending(self, position: Position, moves: Moves) -> Int8[Array, ""]:
        """Why the game is over here, an `Ending`; mate and stalemate come before other draws."""
        now = position.now
        check = movement.threats(unpack(now.board)).check

        def reached(count: Int[Array, ""], limit: int | None) -> Bool[Array, ""]:
            return jnp.bool_(False) if limit is None else count >= limit

        reasons = [
            (Ending.CHECKMATE, (moves.count == 0) & check),
            (Ending.STALEMATE, moves.count == 0),
            (Ending.INSUFFICIENT_MATERIAL, rules.insufficient_material(now.board)),
            (Ending.FIFTY_MOVES, reached(now.clock, self.quiet_plies)),
            (Ending.REPETITION, reached(now.repetitions, self.repetition)),
            (Ending.PLY_CAP, reached(now.ply, self.max_plies)),
        ]
        first = jnp.int8(Ending.NONE)
        for reason, holds in reversed(reasons):
            first = jnp.where(holds, jnp.int8(reason), first)
        return first

    def status(self, position: Position, moves: Moves) -> Status:
        """Whether the game is over here; `moves` are those of `position`."""
        ending = self.ending(position, moves)
        cut = ending == Ending.PLY_CAP
        return Status(
            terminated=(ending != Ending.NONE) & ~cut,
            truncated=cut,
            outcome=jnp.where(ending == Ending.CHECKMATE, jnp.int8(-1), jnp.int8(0)),
        )

    def mover(self, position: Position) -> Int32[Array, ""]:
        """0 where white is to move, 1 where black is."""
        return position.black.astype(jnp.int32)

    def recurrence(self, position: Position) -> Int32[Array, ""]:
        """Plies since the position last stood on the board, 0 for the first time."""
        clock, index = position.now.clock, jnp.arange(self.remembered)
        again = (position.seen == position.hash).all(axis=-1) & (index < clock)
        plies = (clock - 1 - index) % self.remembered + 1
        nearest = jnp.where(again, plies, self.remembered + 1).min()
        return jnp.where(again.any(), nearest, 0).astype(jnp.int32)

    def history(self, position: Position) -> Record:
        """The last H plies as records `[H]`, the newest first, zeros where there was none."""
        now = jax.tree.map(lambda leaf: leaf[None], position.now)
        if position.past is None:
            return now
        return jax.tree.map(lambda new, old: jnp.concatenate([new, old]), now, position.past)

    def position(self, record: Record) -> Position:
        """The position of a record, without a past: as if it stood there for the first time."""
        now = dataclasses.replace(record, repetitions=jnp.ones_like(record.repetitions))
        past = None
        if self.num_boards > 1:
            past = jax.tree.map(
                lambda leaf: jnp.zeros((self.num_boards - 1, *leaf.shape), leaf.dtype), now
            )
        return Position(
            now=now,
            past=past,
            hash=rules.identity(now),
            seen=jnp.zeros((self.remembered, 2), jnp.uint32),
        )

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        """One token `[64, 14 H + 6]` per square for records `[H]`; see `tokens.tokens`."""
        return features.tokens(history, self.chess960)

    @property
    def notation_ranks(self) -> Int32[np.ndarray, "2 A"]:
        """The alphabetical order of the moves in UCI, for white and for black."""
        return labels.uci_ranks()

    @property
    def geometry(self) -> Int16[np.ndarray, "A 3"]:
        """From-square, to-square and kind (0 plain, 1 rook, 2 bishop, 3 knight) of each label."""
        return labels.geometry()

    @property
    def symmetries(self) -> Symmetries:
        """The eight symmetries of the square, the identity and the mirror of the files first."""
        return labels.symmetries()

    def symmetric(self, record: Record) -> Bool[Array, "G"]:
        """The mirror holds without castling rights, the six others without pawns as well."""
        mirror = record.castling == 0
        pawnless = ~unpack(record.board).pawns.any
        return jnp.stack([jnp.bool_(True), mirror, *[mirror & pawnless] * 6])
