"""Our chess is a pgx environment: pgx's own chess where that is right, without its faults."""

import warnings

import chess
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pgx
import pytest
from flax import serialization
from pgx._src import api_test
from pgx.experimental import auto_reset

from azchess.games.chess import (
    Chess,
    ChessGame,
    State,
    from_board,
    from_fen,
    label_to_move,
    move_to_label,
    position_from_fen,
    to_board,
    to_fen,
)

ENV, PGX = Chess(), pgx.make("chess")
SHORT = Chess(max_plies=4)
KEYS = jax.random.split(jax.random.PRNGKey(0), 8)

init, pgx_init = jax.jit(ENV.init), jax.jit(PGX.init)
step, pgx_step = jax.jit(ENV.step), jax.jit(PGX.step)
inits, pgx_inits = jax.jit(jax.vmap(ENV.init)), jax.jit(jax.vmap(PGX.init))
steps, pgx_steps = jax.jit(jax.vmap(ENV.step)), jax.jit(jax.vmap(PGX.step))
short_inits, short_steps = jax.jit(jax.vmap(SHORT.init)), jax.jit(jax.vmap(SHORT.step))
REPETITIONS = np.array([plane < 112 and plane % 14 >= 12 for plane in range(119)])
FOOLS_MATE = "f2f3 e7e5 g2g4 d8h4"
KNIGHTS = "g1f3 g8f6 f3g1 f6g8"


def play(line: str, state: State | None = None) -> State:
    state = init(jax.random.PRNGKey(0)) if state is None else state
    for uci in line.split():
        state = step(state, jnp.int32(move_to_label(state, chess.Move.from_uci(uci))))
    return state


def row(tree, index: int):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(*trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture
def pgx_test(monkeypatch):
    """`pgx.api_test`, whose random player fails under newer jax, with pgx's own games too."""

    def act_randomly(key, mask):
        return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)

    monkeypatch.setattr(api_test, "act_randomly", jax.jit(act_randomly))
    return pgx.api_test


def test_pgx_finds_nothing_wrong_with_the_environment(pgx_test):
    pgx_test(ENV, num=1)


@pytest.mark.slow
def test_pgx_finds_nothing_wrong_with_the_environment_in_many_games(pgx_test):
    pgx_test(ENV, num=10)


def test_games_are_pgxs_own_label_by_label():
    rng = np.random.default_rng(0)
    ours, theirs = inits(KEYS), pgx_inits(KEYS)
    for _ in range(80):
        for name in ("current_player", "rewards", "terminated", "legal_action_mask", "_step_count"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        mine, other = np.asarray(ours.observation), np.asarray(theirs.observation)
        np.testing.assert_array_equal(mine[..., ~REPETITIONS], other[..., ~REPETITIONS])
        assert not mine[..., REPETITIONS].any()
        mask = np.asarray(ours.legal_action_mask)
        labels = jnp.int32([rng.choice(np.flatnonzero(legal)) for legal in mask])
        ours, theirs = steps(ours, labels), pgx_steps(theirs, labels)


@pytest.mark.parametrize("line", [FOOLS_MATE, "e2e4 e7e5 f1c4 b8c6 d1h5 g8f6 h5f7"])
def test_mate_is_rewarded_as_pgx_does(line):
    for seed in range(3):
        ours, theirs = (start(jax.random.PRNGKey(seed)) for start in (init, pgx_init))
        for uci in line.split():
            label = jnp.int32(move_to_label(ours, chess.Move.from_uci(uci)))
            ours, theirs = step(ours, label), pgx_step(theirs, label)
        assert ours.terminated
        for name in ("current_player", "rewards", "terminated", "truncated", "legal_action_mask"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert sorted(ours.rewards.tolist()) == [-1, 1]


def test_a_step_is_what_pgx_defines_it_to_be():
    running = row(short_inits(KEYS), 3)
    legal = running.moves.labels[0].astype(jnp.int32)
    cut = running
    for _ in range(4):
        cut = row(short_steps(stack(cut), cut.moves.labels[None, 0].astype(jnp.int32)), 0)
    lost = row(short_steps(stack(running), jnp.int32([0])), 0)
    mated = running
    for uci in FOOLS_MATE.split():
        label = move_to_label(mated, chess.Move.from_uci(uci))
        mated = row(short_steps(stack(mated), jnp.int32([label])), 0)
    assert (bool(cut.truncated), bool(cut.terminated)) == (True, False)
    assert (bool(mated.truncated), bool(mated.terminated)) == (False, True)
    assert lost.terminated
    assert lost.rewards[running.current_player] == -1
    assert lost.rewards[1 - running.current_player] == 1
    states = stack(running, running, cut, cut, lost, mated, mated)
    legal_there = cut.moves.labels[0].astype(jnp.int32)
    labels = jnp.stack([legal, *jnp.int32([0]), legal_there, *jnp.int32([0, 7, 7]), legal])
    assert_same(
        short_steps(states, labels),
        jax.vmap(lambda s, a: pgx.Env.step(SHORT, s, a))(states, labels),
    )


def test_nothing_happens_after_the_end():
    mated = play(FOOLS_MATE)
    assert mated.legal_action_mask.all()
    after = step(mated, jnp.int32(5))
    assert not after.rewards.any()
    assert_same(after.replace(rewards=mated.rewards), mated)


def test_seats_are_drawn_as_pgx_draws_them_and_are_not_colours():
    ours, theirs = inits(KEYS), pgx_inits(KEYS)
    np.testing.assert_array_equal(ours.current_player, theirs.current_player)
    assert set(ours.current_player.tolist()) == {0, 1}
    assert not ours.position.black.any()
    after = steps(ours, ours.moves.labels[:, 0].astype(jnp.int32))
    np.testing.assert_array_equal(after.current_player, 1 - ours.current_player)
    assert after.position.black.all()


def test_the_other_player_sees_what_pgx_shows_it():
    for line in ("", "e2e4", "e2e4 c7c5 g1f3", "e2e4 e7e5 e1e2 b8c6"):
        ours, theirs = (start(jax.random.PRNGKey(5)) for start in (init, pgx_init))
        for uci in line.split():
            label = jnp.int32(move_to_label(ours, chess.Move.from_uci(uci)))
            ours, theirs = step(ours, label), pgx_step(theirs, label)
        for player in (0, 1):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "\\[Pgx\\]", DeprecationWarning)
                mine, other = (
                    np.asarray(env.observe(state, jnp.int32(player)))
                    for env, state in ((ENV, ours), (PGX, theirs))
                )
            np.testing.assert_array_equal(mine[..., ~REPETITIONS], other[..., ~REPETITIONS])
            assert (mine[0, 0, 112] == 1) == (player != ours._white)


def test_a_ply_cap_truncates_and_is_no_draw():
    states = short_inits(KEYS)
    for ply in range(4):
        assert not states.truncated.any(), ply
        states = short_steps(states, states.moves.labels[:, 0].astype(jnp.int32))
    assert states.truncated.all()
    assert not states.terminated.any()
    assert not states.rewards.any()


def test_options_are_those_of_the_game_behind_it():
    assert Chess(num_slots=40, repetition=None).game == ChessGame(
        num_slots=40, num_boards=8, repetition=None
    )
    with pytest.raises(TypeError, match="no_such_option"):
        Chess(no_such_option=1)


def test_chess960_has_its_own_castling_in_mask_and_planes():
    env = Chess(chess960=True)
    states = jax.jit(jax.vmap(env.init))(KEYS)
    ply = jax.jit(jax.vmap(env.step))
    rng, castlings = np.random.default_rng(0), 0
    for _ in range(24):
        rows = jax.device_get(states)
        chosen = []
        for index in range(len(KEYS)):
            state = row(rows, index)
            board = to_board(state, env.game)
            legal = {move_to_label(state, move, env.game): move for move in board.legal_moves}
            assert set(np.flatnonzero(state.legal_action_mask)) == set(legal)
            assert set(state.moves.labels[: state.moves.count].tolist()) == set(legal)
            sides = (board.turn, not board.turn)
            rights = [
                may
                for side in sides
                for may in (
                    board.has_queenside_castling_rights(side),
                    board.has_kingside_castling_rights(side),
                )
            ]
            assert state.observation[0, 0, 114:118].tolist() == rights
            castling = [label for label, move in legal.items() if board.is_castling(move)]
            castlings += len(castling)
            chosen.append(castling[0] if castling else rng.choice(list(legal)))
        states = ply(states, jnp.array(chosen, jnp.int32))
        if bool(states.terminated.any()):
            break
    assert castlings > 0


def test_a_state_keeps_its_types_and_adds_little_to_the_position():
    state = jax.eval_shape(ENV.init, KEYS[0])
    after = jax.eval_shape(ENV.step, state, jnp.int32(0))
    kinds = [
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)
        for tree in (state, after)
    ]
    assert kinds[0] == kinds[1]
    dense = state.observation, state.legal_action_mask
    sizes = [
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
        for tree in (state, dense, state.position)
    ]
    assert sizes[0] - sizes[1] - sizes[2] < 500
    assert (ENV.num_actions, ENV.observation_shape) == (4672, (8, 8, 119))


def test_a_state_is_drawn_as_pgx_draws_its_own(tmp_path):
    ours, theirs = init(jax.random.PRNGKey(0)), pgx_init(jax.random.PRNGKey(0))
    drawn = [ours]
    for uci in ["e2e4", "c7c5", "g1f3"]:
        assert ours.to_svg() == theirs.to_svg()
        label = jnp.int32(move_to_label(ours, chess.Move.from_uci(uci)))
        ours, theirs = step(ours, label), pgx_step(theirs, label)
        drawn.append(ours)
    assert stack(*drawn).to_svg(color_theme="dark").count("<image") == 4 * 32
    ours.save_svg(tmp_path / "one.svg")
    pgx.save_svg(ours, tmp_path / "two.svg")
    pgx.save_svg_animation(drawn, tmp_path / "three.svg")
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()


def test_a_state_is_serialized_by_flax():
    state = play("e2e4 c7c5")
    assert_same(serialization.from_bytes(init(KEYS[0]), serialization.to_bytes(state)), state)


def test_fens_boards_moves_and_labels_go_in_and_out_of_states():
    fen = "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 3 20"
    state = from_fen(fen)
    assert to_fen(state) == fen == to_fen(state.position) == to_board(state).fen()
    for move in to_board(state).legal_moves:
        label = move_to_label(state, move)
        assert state.legal_action_mask[label]
        assert label_to_move(state, label) == move
    board = chess.Board()
    for uci in KNIGHTS.split():
        board.push_uci(uci)
    played, built = play(KNIGHTS), from_board(board)
    np.testing.assert_array_equal(played.observation, built.observation)
    assert built.position.now.repetitions == 2
    seats = {int(from_fen(fen, key=jax.random.PRNGKey(seed)).current_player) for seed in range(8)}
    assert seats == {0, 1}
    assert from_fen("4k3/8/8/8/8/8/8/4K3 w - - 0 1", Chess(num_slots=30)).terminated
    mated = from_fen("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 0 1")
    assert mated.rewards.tolist() == [-1, 1]
    assert step(mated, jnp.int32(0)).position.now.ply == 0


def test_pgx_fault_a_is_not_here_the_start_position_counts_as_an_occurrence():
    state = play(f"{KNIGHTS} {KNIGHTS}")
    assert state.terminated
    assert state.position.now.repetitions == 3
    assert not state.rewards.any()
    assert state.observation[0, 0, 12:14].tolist() == [1, 1]


def test_pgx_fault_b_is_not_here_en_passant_that_no_pawn_can_play_is_no_difference():
    state = play(f"e2e4 e7e5 {KNIGHTS} {KNIGHTS}")
    assert state.terminated
    assert state.position.now.repetitions == 3


@pytest.mark.fast
def test_pgx_fault_c_is_not_here_all_218_moves_are_legal():
    fen = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
    state = from_fen(fen)
    assert state.legal_action_mask.sum() == state.moves.count == 218
    labels = {move_to_label(state, move) for move in chess.Board(fen).legal_moves}
    assert set(np.flatnonzero(state.legal_action_mask).tolist()) == labels


@pytest.mark.fast
def test_pgx_fault_d_is_not_here_a_fen_has_no_false_past_and_keeps_its_move_number():
    state = from_fen("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3")
    observation = np.asarray(state.observation)
    assert observation[..., :12].sum() == 32
    assert not observation[..., 12:112].any()
    assert observation[0, 0, 113] == np.float32(5 / 512)
    assert state._step_count == 5


def test_pgx_fault_e_is_not_here_repetition_planes_say_what_was_known_at_the_time():
    observation = np.asarray(play("g1h3 g8h6 h3g1 h6g8 g1h3").observation)
    assert observation[0, 0, 12:112:14].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert not observation[..., 13:112:14].any()


def restarted() -> State:
    """What pgx's wrapper returns after a mate."""
    state = play(FOOLS_MATE.rsplit(" ", 1)[0])
    label = jnp.int32(move_to_label(state, chess.Move.from_uci("d8h4")))
    return jax.jit(auto_reset(ENV.step, ENV.init))(state, label, jax.random.PRNGKey(7))


def test_pgx_fault_f_is_not_here_a_restarted_game_can_be_searched():
    state = restarted()
    assert state.terminated
    assert sorted(state.rewards.tolist()) == [-1, 1]
    assert to_fen(state) == chess.STARTING_FEN
    after = step(state, jnp.int32(move_to_label(state, chess.Move.from_uci("e2e4"))))
    assert not after.terminated
    assert not after.rewards.any()
    assert to_fen(after) == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"

    def reply(_, key, action, states):
        del key
        states = jax.vmap(ENV.step)(states, action)
        output = mctx.RecurrentFnOutput(
            reward=jnp.zeros(1),
            discount=jnp.where(states.terminated, 0.0, -1.0),
            prior_logits=jnp.where(states.legal_action_mask, 0.0, -1e9),
            value=jnp.zeros(1),
        )
        return output, states

    @jax.jit
    def search(roots):
        root = mctx.RootFnOutput(
            prior_logits=jnp.where(roots.legal_action_mask, 0.0, -1e9),
            value=jnp.zeros(1),
            embedding=roots,
        )
        return mctx.gumbel_muzero_policy(
            (), jax.random.PRNGKey(0), root, reply, 6, ~roots.legal_action_mask, max_depth=3
        )

    searched = search(stack(state))
    boards = np.asarray(searched.search_tree.embeddings.position.now.board)[0]
    assert len({board.tobytes() for board in boards}) == 7


def test_a_start_with_a_move_number_is_played_on_from_too():
    fen = "4k3/8/8/8/8/8/4P3/4K3 b - - 3 20"
    position = position_from_fen(fen, ENV.game)
    mated = play(FOOLS_MATE.rpartition(" ")[0])
    label = jnp.int32(move_to_label(mated, chess.Move.from_uci("d8h4")))
    restart = auto_reset(ENV.step, lambda key: ENV.from_position(position, key))
    state = jax.jit(restart)(mated, label, jax.random.PRNGKey(7))
    assert to_fen(state) == fen
    after = step(state, state.moves.labels[0].astype(jnp.int32))
    assert not after.terminated
    assert to_fen(after).split()[1] == "w"


@pytest.mark.parametrize("action", [-1, -4672, 4672])
def test_actions_that_are_no_labels_lose(action):
    state = init(jax.random.PRNGKey(0))
    legal = int(state.moves.labels[0])
    for wrong in (action, legal - 4672):
        after = step(state, jnp.int32(wrong))
        assert after.terminated
        assert after.rewards[state.current_player] == -1


def test_a_state_of_chess960_tells_its_castling_moves():
    env = Chess(chess960=True)
    state = from_fen("r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1", env)
    for uci in ("e1g1", "e1h1", "e1c1", "e1a1"):
        assert state.legal_action_mask[move_to_label(state, chess.Move.from_uci(uci))]


def test_a_position_of_another_game_is_refused():
    with pytest.raises(ValueError, match="make it with position_from_fen"):
        ENV.from_position(position_from_fen(chess.STARTING_FEN))
    with pytest.raises(ValueError, match="num_boards is always 8"):
        Chess(num_boards=4)


def test_games_go_on_through_automatic_restarts():
    wrapped = jax.vmap(auto_reset(SHORT.step, SHORT.init))

    @jax.jit
    def games(states, keys):
        def ply(states, key):
            scores = jnp.where(states.moves.legal, jax.random.uniform(key, (8, 218)), -1.0)
            slot = scores.argmax(axis=1)[:, None]
            labels = jnp.take_along_axis(states.moves.labels, slot, axis=1)[:, 0]
            states = wrapped(states, labels.astype(jnp.int32), jax.random.split(key, 8))
            return states, states.replace(observation=jnp.zeros((8,)))

        return jax.lax.scan(ply, states, keys)

    states = short_inits(KEYS)
    final, line = games(states, jax.random.split(jax.random.key(1), 11))
    np.testing.assert_array_equal(line.position.now.ply[:, 0], [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])
    np.testing.assert_array_equal(line.truncated[:, 0], line.position.now.ply[:, 0] == 0)
    start = init(KEYS[0]).position
    assert_same(row(row(line.position, 3), 0), start)
    assert len(set(map(bytes, np.asarray(final.position.now.board)))) > 1
    assert set(np.asarray(line.current_player[3]).tolist()) == {0, 1}


def test_a_batch_steps_as_its_games_do_alone():
    states = inits(KEYS)
    for ply in range(3):
        labels = states.moves.labels[jnp.arange(8), jnp.arange(8) + ply].astype(jnp.int32)
        after = steps(states, labels)
        for index in (0, 5):
            assert_same(row(after, index), step(row(states, index), labels[index]))
        states = after
