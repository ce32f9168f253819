"""What holds for every position: views, symmetries, labels, identity and the rules of records."""

import dataclasses
import functools

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

from azchess.games.chess import (
    ChessGame,
    label_to_move,
    move_to_label,
    position_from_board,
    position_from_fen,
    records_from_fens,
    to_fen,
)
from azchess.games.chess.rules import Ending, identity

GAME = ChessGame()
LONG = ChessGame(num_boards=8)
FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 3 9",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 31",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 12 40",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "4k3/8/8/2KPp2r/8/8/8/8 w - - 0 1",
    "8/8/3k4/8/2b1B3/1q6/3K3R/8 w - - 96 70",
    "8/8/3k4/8/2b5/n7/3K3R/8 b - - 99 70",
]
CHESS960 = ChessGame(chess960=True)
FENS960 = [
    "1r1k2r1/P6P/8/8/8/8/p6p/1R1K2R1 w GBgb - 0 1",
    "nrk1brnb/pp1ppppp/8/2p5/3P4/1N1Q1N2/1PP1PPPP/qRK1BR1B w FBfb - 2 10",
    "rr2k1rr/pp4pp/8/8/8/8/PP4PP/RR2K1RR b Gb - 0 1",
    "5kr1/8/8/8/8/8/8/5KR1 w Gg - 0 1",
]
PAWNLESS = FENS[-2:]
NO_CASTLING = [*FENS[3:5], *FENS[6:]]


@functools.partial(jax.jit, static_argnums=1)
def moves(records, game: ChessGame = GAME):
    return jax.vmap(lambda record: game.moves(game.position(record)))(records)


@functools.partial(jax.jit, static_argnums=1)
def tokens(records, game: ChessGame = GAME):
    return jax.vmap(lambda record: game.tokens(game.history(game.position(record))))(records)


def label_sets(records, game: ChessGame = GAME) -> list[set[int]]:
    found = moves(records, game)
    return [
        set(row[:count].tolist())
        for row, count in zip(np.asarray(found.labels), np.asarray(found.count), strict=True)
    ]


def play(game: ChessGame, line: str, fen: str = chess.STARTING_FEN):
    """Plays UCI moves from a FEN; returns our position and python-chess's board."""
    board, position = chess.Board(fen), position_from_fen(fen, game)
    for uci in line.split():
        move = chess.Move.from_uci(uci)
        position = step(game, position, jnp.int32(move_to_label(position, move)))
        board.push(move)
    return position, board


@functools.partial(jax.jit, static_argnums=0)
def step(game: ChessGame, position, label):
    return game.step(position, label)


@functools.partial(jax.jit, static_argnums=0)
def ended(game: ChessGame, position):
    found = game.moves(position)
    return game.ending(position, found), game.status(position, found)


@pytest.mark.fast
@pytest.mark.parametrize(("game", "fens"), [(GAME, FENS), (CHESS960, FENS960)])
def test_a_position_with_colours_exchanged_has_the_same_labels_and_tokens(game, fens):
    boards = [chess.Board(fen, chess960=game.chess960) for fen in fens]
    records = records_from_fens(fens, game)
    mirrored = records_from_fens([board.mirror().fen() for board in boards], game)
    assert label_sets(records, game) == label_sets(mirrored, game)
    np.testing.assert_array_equal(tokens(records, game), tokens(mirrored, game))
    assert (np.asarray(records.black) != np.asarray(mirrored.black)).all()


@pytest.mark.fast
def test_castling_rights_mark_the_whole_board_and_in_chess960_the_rook():
    board = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w Kkq - 0 1")
    rights = np.asarray(tokens(records_from_fens([board.fen()])))[0, :, 14:18]
    assert (rights == [1, 0, 1, 1]).all()
    rights = np.asarray(tokens(records_from_fens(FENS960, CHESS960), CHESS960))[:, :, 14:18]
    a, b, f, g, last = 0, 8, 40, 48, 7
    expected = [
        {(g, 0), (b, 1), (g + last, 2), (b + last, 3)},
        {(f, 0), (b, 1), (f + last, 2), (b + last, 3)},
        {(b, 1), (g + last, 2)},
        {(g, 0), (g + last, 2)},
    ]
    assert [set(zip(*map(np.ndarray.tolist, row.nonzero()), strict=True)) for row in rights] == (
        expected
    )
    assert a not in {square for marks in expected for square, _ in marks}


@pytest.mark.fast
def test_chess960_from_the_standard_start_is_chess_with_castling_written_otherwise():
    position, moves = position_from_fen(FENS[1]), [*map(chess.Move.from_uci, ("e1g1", "e1c1"))]
    castled = {move_to_label(position, move) for move in moves}
    to_rook = {move_to_label(position, move, CHESS960) for move in moves}
    records = records_from_fens(FENS)
    for plain, other in zip(label_sets(records), label_sets(records, CHESS960), strict=True):
        assert plain - castled == other - to_rook
        assert len(plain) == len(other)


def test_labels_are_those_of_pgx_in_random_games():
    env, rng = pgx.make("chess"), np.random.default_rng(0)
    init, advance = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.step))
    ours_step = jax.jit(jax.vmap(GAME.step))
    look = jax.jit(jax.vmap(GAME.moves))
    theirs = init(jax.random.split(jax.random.key(0), 8))
    ours = jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), 8))
    for _ in range(60):
        found = look(ours)
        running = ~np.asarray(theirs.terminated)
        labels = np.zeros(8, np.int32)
        for row in range(8):
            legal = np.asarray(found.labels[row, : found.count[row]])
            if running[row]:
                mask = np.asarray(theirs.legal_action_mask[row])
                assert sorted(legal) == np.flatnonzero(mask).tolist()
            labels[row] = rng.choice(legal) if len(legal) else 0
        theirs, ours = advance(theirs, jnp.asarray(labels)), ours_step(ours, jnp.asarray(labels))


def test_geometry_says_where_each_legal_move_goes():
    geometry, flip = GAME.geometry, (lambda square, black: square ^ 56 if black else square)
    for fen in FENS:
        position = position_from_fen(fen)
        black = not chess.Board(fen).turn
        for label in label_sets(records_from_fens([fen]))[0]:
            move = label_to_move(position, label)
            pairs = ((move.from_square, 0), (move.to_square, 1))
            for square, column in pairs:
                file, rank = divmod(int(geometry[label, column]), 8)
                assert flip(8 * rank + file, black) == square
            kinds = {chess.ROOK: 1, chess.BISHOP: 2, chess.KNIGHT: 3}
            assert geometry[label, 2] == kinds.get(move.promotion, 0)
    assert geometry.shape == (4672, 3)


@pytest.mark.fast
def test_the_symmetries_of_the_square_permute_squares_and_labels():
    symmetries = GAME.symmetries
    for squares, labels in zip(symmetries.squares, symmetries.labels, strict=True):
        assert sorted(squares) == list(range(64))
        assert sorted(labels) == list(range(4672))
    assert (symmetries.squares[0] == np.arange(64)).all()
    assert (symmetries.labels[0] == np.arange(4672)).all()
    assert len({tuple(squares) for squares in symmetries.squares.tolist()}) == 8


@pytest.mark.parametrize("fen", FENS)
def test_the_moves_of_a_reflected_position_are_the_reflected_moves(fen):
    board, record = chess.Board(fen), records_from_fens([fen])
    holds = np.asarray(GAME.symmetric(jax.tree.map(lambda leaf: leaf[0], record)))
    assert holds[0]
    assert holds[1] == (board.castling_rights == 0)
    assert (holds[2:] == (board.castling_rights == 0 and not board.pawns)).all()
    for g in np.flatnonzero(holds):
        image = chess.Board(None)
        for square, piece in board.piece_map().items():
            ours = 8 * (square % 8) + (square // 8 ^ (0 if board.turn else 7))
            file, rank = divmod(int(GAME.symmetries.squares[g, ours]), 8)
            image.set_piece_at(8 * (rank ^ (0 if board.turn else 7)) + file, piece)
        image.turn, image.castling_rights = board.turn, board.castling_rights
        if board.ep_square is not None:
            image.ep_square = board.ep_square ^ (7 if g == 1 else 0)
        image_record = jax.tree.map(lambda leaf: leaf[None], position_from_board(image).now)
        expected = {int(GAME.symmetries.labels[g, label]) for label in label_sets(record)[0]}
        assert label_sets(image_record)[0] == expected


@pytest.mark.fast
def test_a_position_built_from_its_record_is_the_position_without_its_past():
    position, board = play(LONG, "e2e4 e7e5 g1f3 g8f6 f3g1 f6g8")
    rebuilt = LONG.position(position.now)
    assert (rebuilt.hash == position.hash).all()
    assert rebuilt.now.repetitions == 1
    assert to_fen(rebuilt) == to_fen(position) == board.fen()
    assert rebuilt.past is not None
    assert not any(leaf.any() for leaf in jax.tree.leaves(rebuilt.past))


@pytest.mark.fast
def test_positions_differ_in_identity_by_pieces_mover_castling_and_legal_en_passant_only():
    base = "rnbqkbnr/ppp1pppp/8/3p4/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 2"
    same = [base.replace("- 0 2", "d6 0 2"), base.replace("- 0 2", "- 7 9")]
    other = [base.replace(" w ", " b "), base.replace("KQkq", "KQk"), chess.STARTING_FEN]
    legal = "rnbqkbnr/ppp1pppp/8/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 3"
    # The capture would open the fifth rank to the rook.
    pinned = "4k3/8/8/2KPp2r/8/8/8/8 w - e6 0 1"
    names = np.asarray(
        jax.vmap(identity)(
            records_from_fens(
                [base, *same, *other, legal, legal.replace("d6", "-"), pinned, FENS[6]]
            )
        )
    )
    assert (names[1] == names[0]).all()
    assert (names[2] == names[0]).all()
    assert len({tuple(name) for name in names[[0, 3, 4, 5, 6, 7]].tolist()}) == 6
    assert (names[8] == names[9]).all()
    rooks = ["RR1K2RR w GB - 0 1", "RR1K2RR w HB - 0 1", "RR1K2RR w GA - 0 1"]
    records = records_from_fens([f"4k3/8/8/8/8/8/8/{fen}" for fen in rooks], CHESS960)
    assert len({tuple(name) for name in np.asarray(jax.vmap(identity)(records)).tolist()}) == 3


def test_the_start_position_counts_for_threefold_repetition():
    position, board = play(GAME, "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8")
    assert board.is_repetition(3)
    assert position.now.repetitions == 3
    assert ended(GAME, position)[0] == Ending.REPETITION
    for repetition in (None, 5):
        assert not ended(ChessGame(repetition=repetition), position)[1].over


def test_an_en_passant_square_without_a_capture_does_not_prevent_threefold_repetition():
    position, board = play(GAME, "e2e4 e7e5 g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8")
    assert board.is_repetition(3)
    assert ended(GAME, position)[0] == Ending.REPETITION


def test_a_fen_brings_no_history():
    position = position_from_fen(
        "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3", LONG
    )
    planes = np.asarray(LONG.tokens(LONG.history(position)))
    assert planes[:, :12].sum() == 32
    assert not planes[:, 12 : 14 * 8].any()
    assert position.now.ply == 5


def test_repetition_planes_say_what_was_known_at_the_time():
    position, _ = play(LONG, "g1h3 g8h6 h3g1 h6g8 g1h3")
    planes = np.asarray(LONG.tokens(LONG.history(position)))
    assert [planes[0, 14 * board + 12] for board in range(8)] == [1, 1, 0, 0, 0, 0, 0, 0]
    assert not planes[:, 13 : 14 * 8 : 14].any()


def test_older_boards_are_seen_from_the_mover_of_the_newest():
    position, board = play(LONG, "e2e4 c7c5 g1f3")
    planes = np.asarray(LONG.tokens(LONG.history(position)))
    for age in range(4):
        one = position_from_board(board if board.turn == chess.BLACK else board.mirror())
        single = np.asarray(GAME.tokens(GAME.history(one)))
        if board.turn == chess.BLACK:
            np.testing.assert_array_equal(planes[:, 14 * age : 14 * age + 12], single[:, :12])
        else:
            # The mover of the newest board is the opponent here: exchange sides and ranks.
            white = np.asarray(GAME.tokens(GAME.history(position_from_board(board))))
            turned = white.reshape(8, 8, -1)[:, ::-1].reshape(64, -1)
            swapped = np.concatenate([turned[:, 6:12], turned[:, :6]], axis=1)
            np.testing.assert_array_equal(planes[:, 14 * age : 14 * age + 12], swapped)
        if board.move_stack:
            board.pop()
    assert not planes[:, 14 * 4 : 14 * 8].any()


@pytest.mark.fast
def test_mate_on_the_hundredth_ply_is_mate_and_other_hundredth_plies_are_drawn():
    position, _ = play(GAME, "a1a8", "7k/8/6K1/8/8/8/8/R7 w - - 99 80")
    assert ended(GAME, position)[0] == Ending.CHECKMATE
    assert ended(GAME, position)[1].outcome == -1
    position, _ = play(GAME, "a1a7", "7k/8/6K1/8/8/8/8/R7 w - - 99 80")
    assert ended(GAME, position)[0] == Ending.FIFTY_MOVES
    assert not ended(ChessGame(quiet_plies=150), position)[1].over
    assert not ended(ChessGame(quiet_plies=None), position)[1].over


@pytest.mark.fast
def test_as_many_positions_are_remembered_as_can_be_repeated():
    assert ChessGame().remembered == 100
    assert ChessGame(quiet_plies=150).remembered == 150
    assert ChessGame(quiet_plies=None).remembered == 150
    assert ChessGame(quiet_plies=150, memory=32).remembered == 32
    for field, value in (("repetition", 1), ("quiet_plies", 0), ("memory", 0)):
        with pytest.raises(
            ValueError, match=f"ChessGame.{field} is {value}, but must be a whole number"
        ):
            dataclasses.replace(GAME, **{field: value})


@pytest.mark.fast
def test_a_ply_cap_truncates_what_is_not_over():
    game = ChessGame(max_plies=2)
    position, _ = play(game, "e2e4 e7e5")
    status = ended(game, position)[1]
    assert status.truncated
    assert not status.terminated
    mate, _ = play(ChessGame(max_plies=4), "f2f3 e7e5 g2g4 d8h4")
    status = ended(ChessGame(max_plies=4), mate)[1]
    assert status.terminated
    assert not status.truncated


@pytest.mark.fast
def test_a_position_takes_at_most_1200_bytes_with_eight_boards_and_keeps_its_types():
    position = LONG.init(jax.random.key(0))
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(position)) == 1128
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(position.now)) == 40
    after = jax.eval_shape(LONG.step, position, jnp.int32(0))
    assert jax.tree.map(lambda a: (a.shape, a.dtype, a.weak_type), after) == jax.tree.map(
        lambda a: (a.shape, a.dtype, a.weak_type), position
    )


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def random_play(game: ChessGame, key, batch: int, plies: int):
    """Records and hashes `[plies, batch]` of random games, which begin anew where they end."""

    def ply(positions, key):
        found = jax.vmap(game.moves)(positions)
        slots = jax.random.randint(key, (batch,), 0, jnp.maximum(found.count, 1))
        labels = jnp.take_along_axis(found.labels, slots[:, None], axis=1)[:, 0]
        after = jax.vmap(game.step)(positions, labels.astype(jnp.int32))
        fresh = jax.vmap(game.init)(jax.random.split(key, batch))

        def kept(old, new):
            ended = (found.count == 0).reshape(batch, *[1] * (old.ndim - 1))
            return jnp.where(ended, new, old)

        return jax.tree.map(kept, after, fresh), (positions.now, positions.hash)

    first = jax.vmap(game.init)(jax.random.split(key, batch))
    return jax.lax.scan(ply, first, jax.random.split(key, plies))[1]


@pytest.mark.slow
def test_a_million_different_positions_have_different_hashes():
    records, hashes = random_play(CHESS960, jax.random.key(0), 4096, 300)
    facts = [records.castling, records.en_passant, records.black]
    words = np.stack([*np.asarray(records.board).reshape(-1, 8).T, *map(np.ravel, facts)], axis=1)
    rows = np.ascontiguousarray(words.astype(np.uint32)).view("V44").ravel()
    names = np.ascontiguousarray(hashes).reshape(-1, 2).view(np.uint64).ravel()
    distinct, first = np.unique(rows, return_index=True)
    assert len(distinct) > 1_000_000
    assert len(np.unique(names[first])) == len(distinct)


@pytest.mark.slow
def test_a_move_is_the_same_without_compilation():
    position = position_from_fen(FENS[5])
    label = move_to_label(position, chess.Move.from_uci("e5f6"))
    compiled = jax.jit(GAME.step)(position, jnp.int32(label))
    with jax.disable_jit():
        plain = GAME.step(position, jnp.int32(label))
        assert int(GAME.moves(plain).count) == chess.Board(to_fen(plain)).legal_moves.count()
    jax.tree.map(np.testing.assert_array_equal, plain, compiled)
