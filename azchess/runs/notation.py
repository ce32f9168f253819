"""How games are written for a player: moves, boards and endings, in chess and elsewhere."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int32

from azchess.games import chess
from azchess.games.chess import san
from azchess.games.game import Game, Moves, Position, Status
from azchess.pytree import pytree


@pytree
class View:
    """All that is asked of a position; `ending` is chess's reason for the end, 0 elsewhere."""

    moves: Moves
    status: Status
    over: Bool[Array, ""]
    mover: Int32[Array, ""]
    ending: Int8[Array, ""]
    tokens: Float[Array, "Q F"]


@dataclasses.dataclass(frozen=True)
class Notation:
    """How a game is written where nothing better is known: a move is the number of its label."""

    game: Game

    sides = ("X", "O")

    def ending(self, position: Position, moves: Moves) -> Int8[Array, ""]:
        """Why the game is over, as a number that `words` understands."""
        del position, moves
        return jnp.int8(0)

    def read(self, fen: str) -> Position:
        """The position of a FEN. Raises ValueError."""
        raise ValueError(f"{fen!r}: only chess positions have a FEN, not {self.game.name}")

    def fen(self, position: Position) -> str:
        """The FEN of a position. Raises ValueError."""
        del position
        raise ValueError(f"only chess positions have a FEN, not {self.game.name}")

    def parse(self, position: Position, text: str) -> int:
        """The label of a move as a player writes it; legality is not looked at everywhere."""
        del position
        if not text.isdecimal():
            raise ValueError(f"{text!r} is not a move: write the number of one of `moves`")
        return int(text)

    def name(self, position: Position, label: int) -> str:
        """A legal move as a player reads it: its label, and its squares where it has two."""
        del position
        (origin, target, _), columns = self.game.geometry[label], self.game.board[1]
        if self.game.num_labels == columns:
            return f"{label} ({chr(97 + label)})"
        squares = [self._square_name(int(square)) for square in (origin, target)]
        return f"{label}" if origin == target else f"{label} ({'-'.join(squares)})"

    def board(
        self, position: Position, view: View, last: int | None, first_below: bool, letters: bool
    ) -> str:
        """The board as the player to move has it; free squares show the label that goes there."""
        del position, last, first_below, letters
        own, other = self._figures(int(view.mover))
        if not own:
            return f"(no picture of {self.game.name}; `moves` lists the moves)"
        cells = np.full(len(view.tokens), "·", object)
        for label in view.moves.labels[view.moves.labels >= 0].tolist():
            origin, target, kind = self.game.geometry[label]
            if origin == target and kind == 0:
                cells[origin] = str(label)
        for plane, figure in enumerate(own + other):
            cells[view.tokens[:, plane] > 0] = figure
        rows, columns = self.game.board
        lines = [
            f"{rows - row:2} " + "".join(f"{cell:>4}" for cell in line)
            for row, line in enumerate(cells.reshape(rows, columns))
        ]
        return "\n".join([*lines, "   " + "".join(f"{chr(97 + i):>4}" for i in range(columns))])

    def words(self, position: Position, view: View) -> str:
        """How the game ended."""
        del position
        if view.status.truncated:
            return "The game is cut, without a result"
        outcome, mover = int(view.status.outcome), int(view.mover)
        return f"{self.sides[mover ^ (outcome < 0)]} wins" if outcome else "A draw"

    def in_check(self, position: Position) -> bool:
        """Whether a threat is to be announced."""
        del position
        return False

    def _figures(self, mover: int) -> tuple[str, str]:
        """What the first planes of the tokens show: the mover's men, then the other's."""
        planes = self.game.num_features
        if self.game.name == "gardner_chess":
            sides = ("PNBRQK", "pnbrqk")
        else:
            sides = self.sides if planes in (2, 3, 4) else ("X", "") if planes == 1 else ("", "")
        return sides if mover == 0 or planes == 1 else (sides[1], sides[0])

    def _square_name(self, square: int) -> str:
        rows, columns = self.game.board
        return f"{chr(97 + square % columns)}{rows - square // columns}"


@dataclasses.dataclass(frozen=True)
class ChessNotation(Notation):
    """Chess in SAN and UCI."""

    game: chess.ChessGame

    sides = ("white", "black")

    def ending(self, position: Position, moves: Moves) -> Int8[Array, ""]:
        return self.game.ending(position, moves)

    def read(self, fen: str) -> Position:
        return chess.position_from_fen(fen, self.game)

    def fen(self, position: Position) -> str:
        return chess.to_fen(position)

    def parse(self, position: Position, text: str) -> int:
        return san.parse_move(position, text, self.game)

    def name(self, position: Position, label: int) -> str:
        return san.san(position, label, self.game)

    def board(
        self, position: Position, view: View, last: int | None, first_below: bool, letters: bool
    ) -> str:
        del view
        return san.unicode_board(position, white_below=first_below, last=last, letters=letters)

    def words(self, position: Position, view: View) -> str:
        return san.ending_words(int(view.ending), position, self.game.max_plies)

    def in_check(self, position: Position) -> bool:
        return san.in_check(position)


def notation_of(game: Game) -> Notation:
    """The notation of a run's game.

    A run's chess may have slots for endings only; at the board any position may be set up.
    """
    if not isinstance(game, chess.ChessGame):
        return Notation(game)
    slots = max(game.num_slots, chess.ChessGame.num_slots)
    return ChessNotation(dataclasses.replace(game, num_slots=slots))


@functools.partial(jax.jit, static_argnums=0)
def advance(game: Game, position: Position, label: Int[Array, ""]) -> Position:
    """The position after a legal move."""
    return game.step(position, label)


@functools.partial(jax.jit, static_argnums=0)
def look(notation: Notation, position: Position) -> View:
    """The legal moves and the state of the game."""
    game = notation.game
    moves = game.moves(position)
    status = game.status(position, moves)
    return View(
        moves=moves,
        status=status,
        over=status.over,
        mover=game.mover(position),
        ending=notation.ending(position, moves),
        tokens=game.tokens(game.history(position)),
    )
