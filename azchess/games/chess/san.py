"""Chess as players write it: moves in SAN or UCI, a board in figures, endings in words."""

import difflib

import chess
from azchess.games.chess.game import ChessGame
from azchess.games.chess.labels import geometry
from azchess.games.chess.notation import label_to_move, move_to_label, to_board
from azchess.games.chess.position import Position
from azchess.games.chess.rules import Ending

LIKE = 0.5
"""From this likeness (0 to 1) to what was written a legal move is offered instead."""
OFFERED = 4
"""The most moves that are offered."""


def parse_move(position: Position, text: str, game: ChessGame | None = None) -> int:
    """The label of a move written in SAN or UCI, such as Nf3, g1f3, O-O, e1h1 or e8=Q.

    Raises ValueError that says why the move cannot be read or played, and which ones are close.
    """
    board = to_board(position, game)
    text = text.strip().rstrip("!?")
    if text.upper().replace("0", "O").rstrip("+#") in ("O-O", "O-O-O"):
        text = text.upper().replace("0", "O")
    try:
        move = _uci(board, text) or board.parse_san(text)
    except chess.AmbiguousMoveError as error:
        target = text.rstrip("+#")[-2:]
        names = [board.san(move) for move in board.legal_moves]
        choice = [name for name in names if name[0] == text[0] and name.rstrip("+#")[-2:] == target]
        raise ValueError(f"{text} may be {_one_of(choice)}: say which") from error
    except chess.IllegalMoveError as error:
        raise ValueError(f"{text}: {_why_not(board, text)}{_close(board, text)}") from error
    except chess.InvalidMoveError as error:
        close = _close(board, text)
        raise ValueError(f"{text!r} is not a move, as Nf3 or g1f3 are{close}") from error
    if not move:
        raise ValueError(f"{text!r}: a player may not pass")
    return move_to_label(position, move, game)


def san(position: Position, label: int, game: ChessGame | None = None) -> str:
    """A legal move in SAN, with + for check and # for mate."""
    return to_board(position, game).san(label_to_move(position, label))


def in_check(position: Position) -> bool:
    """Whether the side to move is in check."""
    return to_board(position).is_check()


def unicode_board(
    position: Position, *, white_below: bool, last: int | None = None, letters: bool = False
) -> str:
    """The board in figures, or letters, with coordinates.

    `last`, the label of the move that led here, is marked by (from) and [to].
    """
    board = to_board(position)
    marks = {}
    if last is not None:
        origin, target = (_square(int(square), board.turn) for square in geometry()[last][:2])
        marks = {origin: "()", target: "[]"}
    files = range(8) if white_below else range(7, -1, -1)
    lines = []
    for rank in range(7, -1, -1) if white_below else range(8):
        line = f"{rank + 1} "
        for file in files:
            piece = board.piece_at(chess.square(file, rank))
            left, right = marks.get(chess.square(file, rank), "  ")
            line += left + _figure(piece, letters) + right
        lines.append(line.rstrip())
    return "\n".join([*lines, "   " + "  ".join("abcdefgh"[file] for file in files)])


def ending_words(ending: int, position: Position, max_plies: int | None = None) -> str:
    """How a game ended (`Ending`), and its result."""
    moves, times = int(position.now.clock) // 2, int(position.now.repetitions)
    winner, result = ("black", "0-1") if not position.black else ("white", "1-0")
    words = {
        Ending.CHECKMATE: f"Checkmate: {winner} wins, {result}",
        Ending.STALEMATE: "Stalemate: a draw, 1/2-1/2",
        Ending.INSUFFICIENT_MATERIAL: "Neither side can mate any more: a draw, 1/2-1/2",
        Ending.FIFTY_MOVES: f"{moves} moves without a capture or a pawn move: a draw, 1/2-1/2",
        Ending.REPETITION: f"The position has occurred {times} times: a draw, 1/2-1/2",
        Ending.PLY_CAP: f"The game is cut after {max_plies} plies, without a result",
    }
    return words[Ending(ending)]


def _uci(board: chess.Board, text: str) -> chess.Move | None:
    """A legal move in UCI; None for other texts."""
    try:
        return board.parse_uci(text)
    except ValueError:
        return None


def _why_not(board: chess.Board, text: str) -> str:
    """Why a move that can be read is not legal."""
    match = chess.SAN_REGEX.match(text)
    if match is None:
        return "castling is not possible here"
    letter, file, rank, target, promotion = match.groups()
    name = chess.PIECE_NAMES[chess.PIECE_SYMBOLS.index((letter or "P").lower())]
    no_one = f"no {name} can go to {target}"
    if not letter and file and rank:
        piece = board.piece_at(chess.parse_square(file + rank))
        if piece is None:
            return f"{file}{rank} is empty"
        name = chess.piece_name(piece.piece_type)
        if piece.color != board.turn:
            return f"the {name} on {file}{rank} is not yours"
        no_one = f"the {name} on {file}{rank} cannot go to {target}"
    moves = [
        move
        for move in board.pseudo_legal_moves
        if chess.piece_name(board.piece_type_at(move.from_square) or chess.PAWN) == name
        and move.uci()[2:4] == target
        and move.uci()[0] == (file or move.uci()[0])
        and move.uci()[1] == (rank or move.uci()[1])
    ]
    if not moves:
        return no_one
    legal = [move for move in moves if board.is_legal(move)]
    if any(move.promotion for move in legal) and not promotion:
        return f"say what the pawn becomes, as in {board.san(legal[0])} or {legal[0].uci()}"
    if legal and not letter and not file and not promotion:
        return f"a pawn captures, so say from which file, as in {board.san(legal[0])}"
    if legal:
        return no_one
    return "your king is in check" if board.is_check() else "your king would be in check"


def _close(board: chess.Board, text: str) -> str:
    """Legal moves that look like a text, as a question."""

    def likeness(move: chess.Move) -> float:
        names = (board.san(move).rstrip("+#"), board.uci(move))
        match = difflib.SequenceMatcher(None, text.lower(), "")
        best = 0.0
        for name in names:
            match.set_seq2(name.lower())
            # The same piece to another square is closer than another piece's like letters.
            best = max(best, match.ratio() + 0.25 * (name[0] == text[:1] and name[0].isupper()))
        return best

    ranked = sorted(board.legal_moves, key=likeness, reverse=True)
    least = LIKE if len(ranked) > OFFERED else 0.0
    names = [board.san(move) for move in ranked[:OFFERED] if likeness(move) >= least]
    return f"; perhaps {_one_of(names)}?" if names else ""


def _one_of(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _square(square: int, black: bool) -> int:
    """From one of our squares, seen by black or by white, to python-chess's."""
    return chess.square(square // 8, square % 8 ^ (7 if black else 0))


def _figure(piece: chess.Piece | None, letters: bool) -> str:
    if piece is None:
        return "." if letters else "·"
    return piece.symbol() if letters else piece.unicode_symbol()
