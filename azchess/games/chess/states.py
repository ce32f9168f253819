"""States of the pgx environment from FENs and python-chess boards; works on the host."""

from jaxtyping import PRNGKeyArray

import chess
from azchess.games.chess.env import Chess, State
from azchess.games.chess.notation import position_from_board, position_from_fen


def from_fen(fen: str, env: Chess | None = None, key: PRNGKeyArray | None = None) -> State:
    """The state of a FEN: no boards before it, and the plies that its move number says.

    env: whose rules hold; by default those of `Chess()`.
    key: draws the seats; without one, seat 0 plays white.

    Raises ValueError as `position_from_fen` does.
    """
    env = Chess() if env is None else env
    return env.from_position(position_from_fen(fen, env.game), key)


def from_board(
    board: chess.Board, env: Chess | None = None, key: PRNGKeyArray | None = None
) -> State:
    """The state of a python-chess board, with its move stack as history and for repetitions.

    `env` and `key` are those of `from_fen`. Raises ValueError as `position_from_board` does.
    """
    env = Chess() if env is None else env
    return env.from_position(position_from_board(board, env.game), key)
