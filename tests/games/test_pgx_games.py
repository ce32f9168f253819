"""Games of pgx keep its rules, say who won as the players see it, and offer no move at the end."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pgx._src.gardner_chess_utils as gardner_utils
import pgx.gardner_chess as gardner
import pytest

from azchess.games.pgx_games import PLY_CAPS, pgx_game

NAMES = ["connect_four", "tic_tac_toe", "gardner_chess"]
GAMES = {"connect_four": 24, "tic_tac_toe": 24, "gardner_chess": 6}


@functools.cache
def environment(name):
    env = pgx.make(name)
    return jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.step))


@functools.cache
def functions(name):
    """Init, step and all that is asked of a position, compiled."""
    game = pgx_game(name)

    def look(position):
        moves = game.moves(position)
        tokens = game.tokens(game.history(position))
        return moves, game.status(position, moves), game.mover(position), tokens

    return tuple(jax.jit(jax.vmap(f)) for f in (game.init, game.step, look))


@pytest.mark.parametrize("name", NAMES)
def test_random_games_are_those_of_the_environment(name):
    init, step = environment(name)
    our_init, our_step, look = functions(name)
    keys = jax.random.split(jax.random.key(7), GAMES[name])
    random = np.random.default_rng(0)
    state, position = init(keys), our_init(keys)
    first = np.asarray(state.current_player)
    assert set(first) == {0, 1}
    game, outcomes = pgx_game(name), set()
    alive = np.ones(len(keys), bool)
    for _ in range(400):
        state = jax.device_get(state)
        moves, status, mover, tokens = jax.device_get(look(position))
        assert (mover == (state.current_player != first)).all()
        np.testing.assert_array_equal(
            tokens.reshape(state.observation.shape)[alive],
            np.float32(state.observation)[alive],
        )
        over = state.terminated | state.truncated
        assert ((status.terminated | status.truncated) == over)[alive].all()
        for lane in np.flatnonzero(alive):
            legal = np.flatnonzero(state.legal_action_mask[lane])
            if over[lane]:
                legal = []
                # pgx keeps rewards by player; ours is the mover's, the players' by their sign.
                player = state.current_player[lane]
                assert status.outcome[lane] == np.sign(state.rewards[lane][player])
                seat_of_winner = state.rewards[lane][first[lane]]
                outcomes.add(int(seat_of_winner))
                assert state.rewards[lane].sum() == 0
            else:
                assert status.outcome[lane] == 0
            labels = moves.labels[lane]
            assert labels[labels >= 0].tolist() == list(legal)
            assert moves.count[lane] == len(legal)
            assert (labels[len(legal) :] == -1).all()
        alive &= ~over
        if not alive.any():
            break
        chosen = [
            random.choice(np.flatnonzero(mask)) if on else 0
            for mask, on in zip(state.legal_action_mask, alive, strict=True)
        ]
        action = jnp.asarray(chosen, jnp.int32)
        state, position = step(state, action), our_step(position, action)
    assert not alive.any()
    if name != "gardner_chess":
        assert {1, -1} <= outcomes
    assert game.name == name


def seat_outcomes(name, moves):
    """What each seat is told at the end of a game: by its winner's seat, and by the mover."""
    our_init, our_step, look = functions(name)
    position = our_init(jax.random.split(jax.random.key(0), 8))
    for move in moves:
        position = our_step(position, jnp.full(8, move, jnp.int32))
    found, status, mover, _ = jax.device_get(look(position))
    assert status.terminated.all()
    assert (found.count == 0).all()
    assert len(set(np.asarray(position.first))) == 2
    return status.outcome.tolist(), mover.tolist()


@pytest.mark.fast
def test_who_has_lost_is_told_so_in_either_seat():
    assert seat_outcomes("tic_tac_toe", [0, 3, 1, 4, 2]) == ([-1] * 8, [1] * 8)
    assert seat_outcomes("tic_tac_toe", [0, 3, 1, 4, 8, 5]) == ([-1] * 8, [0] * 8)
    assert seat_outcomes("tic_tac_toe", [0, 1, 2, 4, 3, 5, 7, 6, 8])[0] == [0] * 8
    assert seat_outcomes("connect_four", [0, 1, 0, 1, 0, 1, 0]) == ([-1] * 8, [1] * 8)


def test_gardner_chess_is_cut_and_not_drawn_after_256_plies():
    game = pgx_game("gardner_chess")
    assert PLY_CAPS["gardner_chess"] == gardner.MAX_TERMINATION_STEPS == 256
    _, our_step, look = functions("gardner_chess")
    position = functions("gardner_chess")[0](jax.random.split(jax.random.key(0), 1))
    at_cap = position.state.replace(_step_count=jnp.array([255], jnp.int32))
    position = type(position)(state=at_cap, first=position.first)
    moves, status, *_ = look(position)
    assert not status.over[0]
    after = our_step(position, moves.labels[:, 0].astype(jnp.int32))
    moves, status, *_ = look(after)
    assert bool(after.state.terminated[0])
    assert bool(status.truncated[0])
    assert not status.terminated[0]
    assert int(status.outcome[0]) == 0
    assert int(moves.count[0]) == 0
    assert game.num_boards == 1


def test_gardner_moves_have_the_squares_of_pgx():
    game = pgx_game("gardner_chess")
    geometry = game.geometry
    assert geometry.shape == (1225, 3)

    def drawn(square):
        # pgx numbers squares file by file from below; its observation has row 0 on top.
        file, rank = divmod(square, 5)
        return (4 - rank) * 5 + file

    table = np.asarray(gardner_utils.TO_MAP)
    for square in range(25):
        for plane in range(49):
            origin, target, kind = geometry[49 * square + plane]
            assert origin == drawn(square)
            assert kind == (1 + plane // 3 if plane < 9 else 0)
            # Only a pawn one step from the last rank is promoted.
            if plane >= 9 or square % 5 == 3:
                to = table[square, plane]
                assert target == (drawn(to) if to >= 0 else origin)
    legal = np.asarray(pgx.make("gardner_chess").init(jax.random.key(0)).legal_action_mask)
    pawns = {(15 + file, 10 + file) for file in range(5)}
    assert pawns <= {tuple(row[:2].tolist()) for row in geometry[legal]}


SHAPES = {
    "tic_tac_toe": ((3, 3), 9, 9),
    "connect_four": ((6, 7), 7, 7),
    "gardner_chess": ((5, 5), 1225, 128),
    "othello": ((8, 8), 65, 65),
    "go_9x9": ((9, 9), 82, 82),
    "hex": ((11, 11), 122, 122),
}


@pytest.mark.parametrize("name", SHAPES)
def test_geometry_stays_on_the_board_and_tells_labels_apart(name):
    game = pgx_game(name)
    assert (game.board, game.num_labels, game.num_slots) == SHAPES[name]
    geometry = game.geometry
    assert geometry.shape == (game.num_labels, 3)
    assert geometry.dtype == np.int16
    assert geometry.min() >= 0
    assert geometry[:, :2].max() < game.board[0] * game.board[1]
    if name != "gardner_chess":
        assert len({tuple(row) for row in geometry.tolist()}) == game.num_labels


@pytest.mark.parametrize("name", ["tic_tac_toe", "othello", "go_9x9"])
def test_a_stone_is_seen_on_the_square_of_its_label(name):
    game = pgx_game(name)
    position = jax.jit(game.init)(jax.random.key(0))
    label = int(game.moves(position).labels[0])
    before = np.asarray(game.tokens(game.history(position)))
    after = np.asarray(game.tokens(game.history(jax.jit(game.step)(position, jnp.int32(label)))))
    square = game.geometry[label, 1]
    assert before[square, :2].sum() == 0
    assert after[square, :2].tolist() == [0.0, 1.0]


def test_a_disc_of_connect_four_is_read_off_its_column():
    game = pgx_game("connect_four")
    assert game.geometry.tolist() == [[c, 35 + c, 0] for c in range(7)]
    position = jax.jit(game.step)(jax.jit(game.init)(jax.random.key(0)), jnp.int32(3))
    tokens = np.asarray(game.tokens(game.history(position)))
    assert tokens[35 + 3].tolist() == [0.0, 1.0]
    assert tokens.sum() == 1.0


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("chess", "use azchess.games.chess.ChessGame"),
        ("backgammon", "dice"),
        ("kuhn_poker", "hidden cards"),
        ("leduc_holdem", "hidden cards"),
        ("2048", "only two-player board games"),
        ("tic_tac_two", "no such environment"),
    ],
)
def test_games_that_do_not_fit_are_refused_with_the_reason(name, reason):
    with pytest.raises(ValueError, match=f"pgx_game\\('{name}'\\).*{reason}"):
        pgx_game(name)
