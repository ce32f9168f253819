"""Writes perft_chess960.epd: move counts of Chess960 positions by python-chess.

Half of the positions are chosen for their castling, half come from random games that castle as
soon as they can. Run it as `python tests/data/perft_chess960.py`.
"""

import pathlib
import random

import chess

DEEPEST, MOST = 4, 40_000
GAMES = 30

CHOSEN = [
    "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
    "rkrbbqnn/pppppppp/8/8/8/8/PPPPPPPP/RKRBBQNN w CAca - 0 1",
    # The rook on b1 shields its king from a queen, or a rook, on a1; then nothing does.
    "4k3/8/8/8/8/8/8/qRK5 w B - 0 1",
    "4k3/8/8/8/8/8/8/rR1K3R w HB - 0 1",
    "4k3/8/8/8/8/8/8/1R1K3R w HB - 0 1",
    # King and rook change places, stay where they are, or one of them does.
    "5kr1/8/8/8/8/8/8/5KR1 w Gg - 0 1",
    "6kr/8/8/8/8/8/8/6KR w Hh - 0 1",
    "2rk4/8/8/8/8/8/8/2RK4 b Cc - 0 1",
    "rk5r/8/8/8/8/8/8/RK5R w HAha - 0 1",
    "1rk2r2/8/8/8/8/8/8/1RK2R2 b FBfb - 0 1",
    # The way is long and crosses files that are attacked; what the rook crosses may be attacked.
    "1r4kr/8/8/8/8/8/8/1R4KR w HBhb - 0 1",
    "4k3/8/8/8/8/8/1p4p1/RK4R1 w GA - 0 1",
    "3r1k2/8/8/8/8/8/8/R4K1R w HA - 0 1",
    # Each side with rights of its own; another rook outside the one that may castle.
    "1r2k2r/8/8/8/8/8/8/RR1K2RR w GBh - 0 1",
    "rr2k1rr/pp4pp/8/8/8/8/PP4PP/RR2K1RR w GBgb - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
    "nrk1brnb/pp1ppppp/8/2p5/3P4/1N1Q1N2/1PP1PPPP/qRK1BR1B w FBfb - 2 10",
    # A capture takes a right away, with or without a promotion.
    "r2k3r/1P4P1/8/8/8/8/1p4p1/R2K3R w HAha - 0 1",
    "1r1k2r1/P6P/8/8/8/8/p6p/1R1K2R1 b GBgb - 0 1",
]


def perft(board: chess.Board, depth: int) -> int:
    """How many sequences of `depth` moves there are."""
    if depth == 1:
        return board.legal_moves.count()
    count = 0
    for move in board.legal_moves:
        board.push(move)
        count += perft(board, depth - 1)
        board.pop()
    return count


def played(draw: random.Random) -> chess.Board:
    """A position of a random game that has a castling move, or has just seen one."""
    board = chess.Board.from_chess960_pos(draw.randrange(960))
    for _ in range(draw.randrange(6, 60)):
        moves = list(board.legal_moves)
        castles = [move for move in moves if board.is_castling(move)]
        if castles and draw.random() < 0.3:
            return board
        calm = [m for m in moves if board.piece_type_at(m.from_square) != chess.KING]
        board.push(draw.choice(castles or calm or moves))
        if board.is_game_over():
            return played(draw)
    return board


def main() -> None:
    draw = random.Random(960)
    boards = [chess.Board(fen, chess960=True) for fen in CHOSEN]
    boards += [played(draw) for _ in range(GAMES)]
    lines = []
    for board in boards:
        assert board.is_valid(), (board.fen(), board.status())
        counts = [perft(board, 1)]
        while len(counts) < DEEPEST and counts[-1] * counts[0] <= MOST:
            counts.append(perft(board, len(counts) + 1))
        depths = (f" ;D{depth} {count}" for depth, count in enumerate(counts, start=1))
        lines.append(board.shredder_fen() + "".join(depths))
    path = pathlib.Path(__file__).with_suffix(".epd")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
