"""Losses are what the formulas say, see only legal moves, and can be brought to their least."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.evaluation.endings import ending_records
from azchess.evaluation.oracles import tablebase
from azchess.games.chess import ChessGame, records_from_fens
from azchess.games.pgx_games import pgx_game
from azchess.learning.learner import LearnConfig, new_learner, update
from azchess.learning.losses import Batch, LearnKnobs, losses, make_batch, total_loss
from azchess.learning.replay import Samples
from azchess.networks.transformer import TransformerConfig

CHESS = ChessGame(num_slots=40, memory=8)
SLOTS, SQUARES = 6, 9


def samples_of(history, policy, result, **others):
    """Samples of weight 1 whose other fields do not matter."""
    number = policy.shape[0]
    values = {
        "wdl": jnp.full((number, 3), 1 / 3),
        "moves_left": jnp.ones(number),
        "weight": jnp.ones(number),
    }
    return Samples(history=history, policy=policy, result=result, **(values | others))


def fixed(logits, wdl, moves_left):
    """A network that always answers the same."""
    return lambda tokens, squares: (logits, jnp.log(wdl), moves_left)


@pytest.fixture
def drawn(fresh_key):
    """A batch of random targets over legal slots, and a network's random answers."""
    number, legal = 7, np.arange(SLOTS) < np.array([[1], [2], [3], [4], [5], [6], [6]])
    policy = jax.random.dirichlet(fresh_key(), jnp.ones(SLOTS), (number,)) * legal
    policy /= policy.sum(axis=-1, keepdims=True)
    result = jax.nn.one_hot(jnp.array([0, 1, 2, 0, 1, 2, 0]), 3)
    wdl, answer = jax.random.dirichlet(fresh_key(), jnp.ones(3), (2, number))
    samples = samples_of(
        None,
        policy,
        result,
        wdl=wdl,
        moves_left=jnp.array([1.0, 2.0, 3.0, 40.0, 5.0, 60.0, 7.0]),
        weight=jnp.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    )
    batch = Batch(
        tokens=jnp.zeros((number, SQUARES, 1)),
        squares=jnp.zeros((number, SLOTS, 3), jnp.int32),
        legal=jnp.asarray(legal),
        samples=samples,
    )
    logits = 3 * jax.random.normal(fresh_key(), (number, SLOTS))
    return batch, logits, answer, jnp.arange(7.0)


@pytest.mark.fast
def test_losses_are_the_formulas_of_a_plain_reference(drawn):
    batch, logits, wdl, moves_left = drawn
    network, samples = fixed(logits, wdl, moves_left), batch.samples
    each = losses(network, batch, 0.3)
    for row in range(7):
        count = int(batch.legal[row].sum())
        scores = np.exp(np.float64(logits[row, :count]))
        share = scores / scores.sum()
        policy = -(np.float64(samples.policy[row, :count]) * np.log(share)).sum()
        target = 0.7 * np.float64(samples.result[row]) + 0.3 * np.float64(samples.wdl[row])
        value = -(target * np.log(np.float64(wdl[row]))).sum()
        gap = abs(float(moves_left[row]) - float(samples.moves_left[row])) / 10
        huber = 0.5 * gap**2 if gap < 1 else gap - 0.5
        plies = 0.0 if samples.result[row, 1] == 1 else huber
        assert float(each.policy[row]) == pytest.approx(policy, rel=1e-4)
        assert float(each.value[row]) == pytest.approx(value, rel=1e-4)
        assert float(each.moves_left[row]) == pytest.approx(plies, rel=1e-4, abs=1e-7)
        right = share.argmax() == np.asarray(samples.policy[row, :count]).argmax()
        assert bool(each.accuracy[row]) == right


def test_the_total_weighs_the_parts_and_leaves_out_what_has_no_weight(drawn):
    batch, logits, wdl, moves_left = drawn
    network = fixed(logits, wdl, moves_left)
    each = losses(network, batch, 0.0)
    total, means = total_loss(network, batch, LearnKnobs(value_weight=2.0, moves_left_weight=0.25))
    expected = [float(x[:6].mean()) for x in (each.policy, each.value, each.moves_left)]
    assert float(means.policy) == pytest.approx(expected[0], rel=1e-5)
    assert float(total) == pytest.approx(np.dot([1, 2, 0.25], expected), rel=1e-5)
    nothing = dataclasses.replace(
        batch, samples=dataclasses.replace(batch.samples, weight=jnp.zeros(7))
    )
    assert float(total_loss(network, nothing, LearnKnobs())[0]) == 0.0


def test_a_perfect_prediction_costs_the_targets_entropy_alone(drawn):
    batch, *_ = drawn
    samples = batch.samples
    logits = jnp.where(batch.legal, jnp.log(jnp.maximum(samples.policy, 1e-30)), 50.0)
    each = losses(fixed(logits, samples.wdl, samples.moves_left), batch, 1.0)
    policy, wdl = np.float64(samples.policy), np.float64(samples.wdl)
    entropy = -(policy * np.log(np.where(policy > 0, policy, 1))).sum(axis=-1)
    np.testing.assert_allclose(each.policy, entropy, atol=1e-5)
    np.testing.assert_allclose(each.value, -(wdl * np.log(wdl)).sum(axis=-1), atol=1e-5)
    assert (each.moves_left == 0).all()
    assert (each.accuracy == 1).all()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_share_of_the_search_mixes_the_value_target(drawn, share):
    batch, logits, wdl, moves_left = drawn
    network = fixed(logits, wdl, moves_left)
    ends = [losses(network, batch, end).value for end in (0.0, 1.0)]
    mixed = losses(network, batch, share).value
    np.testing.assert_allclose(mixed, (1 - share) * ends[0] + share * ends[1], rtol=1e-5)


def test_plies_left_count_for_decided_games_alone(drawn):
    batch, logits, wdl, moves_left = drawn
    each = losses(fixed(logits, wdl, moves_left), batch, 0.0)
    drawn_games = np.asarray(batch.samples.result[:, 1] == 1)
    assert (np.asarray(each.moves_left)[drawn_games] == 0).all()
    gap = np.asarray(moves_left != batch.samples.moves_left)
    assert ((np.asarray(each.moves_left) > 0) == (~drawn_games & gap)).all()


def test_padded_slots_have_no_gradient_and_no_say(drawn):
    batch, logits, wdl, moves_left = drawn

    def loss(logits):
        return total_loss(fixed(logits, wdl, moves_left), batch, LearnKnobs())[0]

    gradient = jax.grad(loss)(logits)
    assert (gradient[~np.asarray(batch.legal)] == 0).all()
    assert jnp.isfinite(gradient).all()
    assert (abs(gradient[3, :4]) > 0).all()
    shouting = jnp.where(batch.legal, logits, 1e9)
    assert float(loss(shouting)) == float(loss(logits))


def test_one_batch_is_learned_by_heart():
    game = pgx_game("tic_tac_toe")
    keys = jax.random.split(jax.random.key(2), 8)
    positions = jax.vmap(game.init)(keys)
    step = jax.jit(jax.vmap(game.step))
    for ply in range(3):
        labels = jax.random.randint(keys[ply], (8,), 0, 3) + 3 * ply
        positions = step(positions, labels)
    moves = jax.vmap(game.moves)(positions)
    boards = np.asarray(jax.vmap(lambda x: game.tokens(game.history(x)))(positions))
    # Positions that look the same get the same targets, by a rule that needs the whole board.
    code = (boards.reshape(8, -1) @ np.arange(1, 19)).astype(int)
    policy = jax.nn.one_hot(jnp.asarray(code % 6), game.num_slots)
    assert (np.asarray(moves.count) == 6).all()
    samples = samples_of(
        jax.vmap(game.history)(positions), policy, jax.nn.one_hot(jnp.asarray(code % 3), 3)
    )
    batch = make_batch(game, samples, None)
    config = LearnConfig(warmup=0)
    network = TransformerConfig(layers=1, width=16, heads=2, summary=4).init(
        game, jax.random.key(0)
    )
    knobs = LearnKnobs(learning_rate=0.01, weight_decay=0.0)

    @jax.jit
    def learned(learner):
        def one(learner, _):
            return update(config, learner, batch, knobs)

        return jax.lax.scan(one, learner, None, length=300)

    _, metrics = learned(new_learner(config, network))
    assert float(metrics.losses.policy[0]) > 1.0
    assert float(metrics.losses.policy[-1]) < 0.02
    assert float(metrics.losses.value[-1]) < 0.02
    assert float(metrics.losses.accuracy[-1]) == 1.0


@pytest.fixture(scope="module")
def endings():
    """King and queen against king, both sides to move: records `[N]`."""
    table = tablebase("KQvK")
    random = np.random.default_rng(3)
    squares = [table.positions(side, 1)[0] for side in (True, False)]
    chosen = np.concatenate([part[random.choice(len(part), 6)] for part in squares])
    return ending_records(table, chosen, np.repeat([True, False], 6))


def turned(record, symmetry):
    """The record with every piece on its image under a symmetry, built square by square."""
    squares = CHESS.symmetries.squares[symmetry]
    board = np.asarray(record.board)
    bits = (board[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    bits = bits.reshape(4, 64)
    image = np.zeros_like(bits)
    image[:, squares] = bits
    words = (image.reshape(4, 2, 32) << np.arange(32, dtype=np.uint32)).sum(axis=-1)
    return dataclasses.replace(record, board=jnp.asarray(words, jnp.uint32))


def test_every_symmetry_of_an_ending_turns_its_moves_with_it(endings):
    legal = jax.jit(lambda record: CHESS.moves(CHESS.position(record)).labels)
    for index in range(12):
        record = jax.tree.map(lambda leaf, index=index: leaf[index], endings)
        assert CHESS.symmetric(record).all()
        labels = np.asarray(legal(record))
        for symmetry in range(8):
            image = np.asarray(legal(turned(record, symmetry)))
            expected = CHESS.symmetries.labels[symmetry][labels[labels >= 0]]
            assert sorted(image[image >= 0]) == sorted(expected)


def test_augmented_tokens_and_moves_are_those_of_the_turned_position(endings):
    batch_of = jax.jit(functools.partial(make_batch, CHESS))
    number = 12
    policy = jnp.ones((number, CHESS.num_slots))
    samples = samples_of(
        jax.tree.map(lambda leaf: leaf[:, None], endings), policy, jnp.ones((number, 3)) / 3
    )
    plain = batch_of(samples, None)
    rows = [jax.tree.map(lambda leaf, row=row: leaf[row], endings) for row in range(number)]
    look = jax.jit(lambda record: CHESS.tokens(CHESS.history(CHESS.position(record))))
    images = [[np.asarray(look(turned(row, s))) for s in range(8)] for row in rows]
    legal = np.asarray(plain.legal)
    seen = set()
    for seed in range(6):
        batch = batch_of(samples, jax.random.key(seed))
        np.testing.assert_array_equal(batch.legal, legal)
        for row in range(number):
            fits = [s for s in range(8) if (np.asarray(batch.tokens[row]) == images[row][s]).all()]
            assert fits
            squares = CHESS.symmetries.squares[fits[0]]
            expected = squares[np.asarray(plain.squares[row, :, :2])]
            there = legal[row]
            # A board that is its own image leaves open which symmetry it was.
            options = [
                CHESS.symmetries.squares[s][np.asarray(plain.squares[row, :, :2])] for s in fits
            ]
            assert any(
                (np.asarray(batch.squares[row, :, :2])[there] == option[there]).all()
                for option in [expected, *options]
            )
            assert (np.asarray(batch.squares[row, :, 2])[there] == 0).all()
            seen.update(fits)
    assert seen == set(range(8))


def test_only_symmetries_that_hold_are_used():
    fens = [
        "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1",  # a pawn: the mirror alone
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",  # castling: nothing
    ]
    records = records_from_fens(fens)
    assert jax.vmap(CHESS.symmetric)(records).sum(axis=-1).tolist() == [2, 1]
    number = 40
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf, number // 2, axis=0)[:, None], records)
    samples = samples_of(many, jnp.ones((number, CHESS.num_slots)), jnp.ones((number, 3)) / 3)
    batch_of = jax.jit(functools.partial(make_batch, CHESS))
    plain, batch = batch_of(samples, None), batch_of(samples, jax.random.key(0))
    same = (plain.tokens == batch.tokens).all(axis=(1, 2))
    mirror = CHESS.symmetries.squares[1]
    image = np.zeros_like(plain.tokens)
    image[:, mirror] = plain.tokens
    mirrored = (image == np.asarray(batch.tokens)).all(axis=(1, 2))
    assert same[20:].all()
    assert (np.asarray(same[:20]) ^ mirrored[:20]).all()
    assert 3 < same[:20].sum() < 17


def test_a_network_that_ignores_the_board_has_the_same_loss_augmented_or_not(endings):
    samples = samples_of(
        jax.tree.map(lambda leaf: leaf[:, None], endings),
        jnp.full((12, CHESS.num_slots), 1 / CHESS.num_slots),
        jnp.ones((12, 3)) / 3,
    )

    def network(tokens, squares):
        pieces = tokens.sum(axis=(1, 2))
        return jnp.zeros(squares.shape[:2]), jnp.stack([pieces] * 3, axis=-1), pieces

    ends = [
        total_loss(network, make_batch(CHESS, samples, key), LearnKnobs())[0]
        for key in (None, jax.random.key(0))
    ]
    assert float(ends[0]) == pytest.approx(float(ends[1]), rel=1e-6)
