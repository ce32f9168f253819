"""Chess: board, legal moves, draw rules, the pgx environment over them, tokens and notation."""

from typing import TYPE_CHECKING, Any

from azchess.games.chess.game import ChessGame
from azchess.games.chess.notation import (
    label_to_move,
    move_to_label,
    position_from_board,
    position_from_fen,
    records_from_fens,
    to_board,
    to_fen,
)
from azchess.games.chess.position import Position, Record, start

if TYPE_CHECKING:
    from azchess.games.chess.env import Chess, State
    from azchess.games.chess.states import from_board, from_fen

__all__ = [
    "Chess",
    "ChessGame",
    "Position",
    "Record",
    "State",
    "from_board",
    "from_fen",
    "label_to_move",
    "move_to_label",
    "position_from_board",
    "position_from_fen",
    "records_from_fens",
    "start",
    "to_board",
    "to_fen",
]


def __getattr__(name: str) -> Any:
    # Imported when first used, because importing pgx starts a device.
    if name in ("Chess", "State"):
        from azchess.games.chess import env

        return getattr(env, name)
    if name in ("from_board", "from_fen"):
        from azchess.games.chess import states

        return getattr(states, name)
    raise AttributeError(f"module 'azchess.games.chess' has no attribute {name!r}")
