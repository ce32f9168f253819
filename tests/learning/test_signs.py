"""Every ply of games written down by hand gets the result its own player had, in both colours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import subtraction
from azchess.learning.replay import gather, sampleable
from azchess.learning.selfplay import SelfPlayConfig
from learning.scripted import (
    DRAW,
    FOOLS_MATE,
    LOSS,
    QUIET,
    REPETITION,
    SCHOLARS_MATE,
    STALEMATE,
    WIN,
    Scripted,
    labels_of,
    played,
    remembered,
    script,
)

CUT_AT = 19
UNDECIDED = [0.5, 0.25, 0.25]


def samples_of(plies, capacity=None):
    """Result, search and plies left per lane and ply of fresh games, and what may be sampled."""
    capacity = capacity or plies.ply.shape[0]
    replay = remembered(plies, capacity)
    lane, column = map(jnp.ravel, jnp.indices(replay.game.shape))
    samples = jax.jit(gather, static_argnums=3)(replay, lane, column, 1, jnp.float32(1))
    shape = replay.game.shape
    table = jax.tree.map(
        lambda x: np.asarray(x).reshape(*shape, *x.shape[1:]),
        (samples.result, samples.wdl, samples.moves_left),
    )
    return *table, np.asarray(sampleable(replay, 1))


@pytest.fixture(scope="module")
def chess_game():
    lanes = [labels_of(t) for t in (FOOLS_MATE, SCHOLARS_MATE, STALEMATE, REPETITION, QUIET)]
    assert [len(lane) for lane in lanes] == [4, 7, 19, 8, 20]
    wdl = np.tile(np.float32([0.1, 0.2, 0.7]), (5, 20, 1))
    wdl[4, CUT_AT - 1] = UNDECIDED
    search = Scripted(ply=lambda position: position.now.ply)
    config = SelfPlayConfig(games=5, plies=20, max_plies=CUT_AT)
    game = ChessGame(num_slots=64, memory=16)
    return played(game, search, config, script(lanes, 32, wdl))[1]


def test_chess_games_end_when_and_as_they_should(chess_game):
    ends = {lane: np.flatnonzero(chess_game.ended[:, lane]).tolist() for lane in range(5)}
    assert ends == {0: [3, 7, 11, 15, 19], 1: [6, 13], 2: [18], 3: [7, 15], 4: [18]}
    assert chess_game.ended[chess_game.cut].all()
    assert [lane for lane in range(5) if chess_game.cut[:, lane].any()] == [4]
    first_seat = {lane: chess_game.result[ends[lane][0], lane].tolist() for lane in range(5)}
    # The nineteenth move is white's, so that the search spoke for white, who is seat 0.
    assert first_seat == {0: LOSS, 1: WIN, 2: DRAW, 3: DRAW, 4: UNDECIDED}


def test_chess_targets_are_those_written_by_hand(chess_game):
    result, wdl, moves_left, able = samples_of(chess_game)
    assert able[0].all()
    assert able[1].tolist() == [True] * 14 + [False] * 6
    assert able[2].tolist() == able[4].tolist() == [True] * 19 + [False]
    # Black mates on the fourth ply: white has lost at each of its moves, black has won.
    assert result[0, :4].tolist() == [LOSS, WIN, LOSS, WIN]
    assert result[0, 4:8].tolist() == [LOSS, WIN, LOSS, WIN]
    assert moves_left[0, :8].tolist() == [4, 3, 2, 1, 4, 3, 2, 1]
    # White mates on the seventh.
    assert result[1, :7].tolist() == [WIN, LOSS, WIN, LOSS, WIN, LOSS, WIN]
    assert moves_left[1, :14].tolist() == [7, 6, 5, 4, 3, 2, 1] * 2
    assert result[2, :19].tolist() == [DRAW] * 19
    assert result[3, :16].tolist() == [DRAW] * 16
    assert moves_left[3, 6:10].tolist() == [2, 1, 8, 7]
    # The search said 0.5 for white when the game was cut, so black is at 0.25.
    white, black = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
    assert result[4, :19].tolist() == [white, black] * 9 + [white]
    np.testing.assert_allclose(wdl[:4], np.broadcast_to([0.1, 0.2, 0.7], wdl[:4].shape), atol=1e-3)


TIC_TAC_TOE = {
    "first wins": ([0, 3, 1, 4, 2], [WIN, LOSS, WIN, LOSS, WIN]),
    "second wins": ([0, 3, 1, 4, 8, 5], [LOSS, WIN, LOSS, WIN, LOSS, WIN]),
    "drawn": ([0, 1, 2, 4, 3, 5, 7, 6, 8], [DRAW] * 9),
}


@pytest.mark.fast
def test_tic_tac_toe_targets_are_those_written_by_hand():
    search = Scripted(ply=lambda position: position.state._step_count)
    config = SelfPlayConfig(games=3, plies=9)
    params = script([moves for moves, _ in TIC_TAC_TOE.values()], 9)
    result, _, moves_left, able = samples_of(
        played(pgx_game("tic_tac_toe"), search, config, params)[1]
    )
    for lane, (moves, hand) in enumerate(TIC_TAC_TOE.values()):
        length = len(moves)
        assert able[lane, :length].all()
        assert result[lane, :length].tolist() == hand
        assert moves_left[lane, :length].tolist() == list(range(length, 0, -1))


HEAPS = {
    # Takes of one to three from a heap of five; who takes the last one wins.
    (3, 2): [LOSS, WIN],
    (1, 1, 3): [WIN, LOSS, WIN],
    (1, 1, 1, 2): [LOSS, WIN, LOSS, WIN],
}


@pytest.mark.fast
def test_heap_targets_are_those_written_by_hand():
    search = Scripted(ply=lambda position: position.ply)
    params = script([[take - 1 for take in takes] for takes in HEAPS], 6)
    config = SelfPlayConfig(games=3, plies=4)
    result, _, moves_left, able = samples_of(played(subtraction(5, 3), search, config, params)[1])
    for lane, (takes, hand) in enumerate(HEAPS.items()):
        assert able[lane, : len(takes)].all()
        assert result[lane, : len(takes)].tolist() == hand
        assert moves_left[lane, : len(takes)].tolist() == list(range(len(takes), 0, -1))


@pytest.mark.parametrize("is_draw", [False, True])
@pytest.mark.parametrize("max_plies", [3, 4])
def test_a_cut_game_has_the_result_that_the_last_search_saw_or_is_drawn(max_plies, is_draw):
    wdl = np.zeros((1, 8, 3), np.float32)
    wdl[:, :] = LOSS
    wdl[0, max_plies - 1] = UNDECIDED
    config = SelfPlayConfig(games=1, plies=8, max_plies=max_plies, cut_is_draw=is_draw)
    search = Scripted(ply=lambda position: position.ply)
    params = script([[0] * 8], 8, wdl)
    plies = played(subtraction(30, 1), search, config, params)[1]
    assert np.flatnonzero(plies.ended).tolist() == np.flatnonzero(plies.cut).tolist()
    assert np.flatnonzero(plies.cut)[0] == max_plies - 1
    result, _, moves_left, able = samples_of(plies)
    assert moves_left[0, :max_plies].tolist() == list(range(max_plies, 0, -1))
    speaker = (max_plies - 1) % 2
    for ply in range(max_plies):
        seen = UNDECIDED if ply % 2 == speaker else UNDECIDED[::-1]
        assert result[0, ply].tolist() == (DRAW if is_draw else seen)
        assert able[0, ply]


def test_a_cut_game_goes_on_for_as_long_as_the_network_expects():
    config = SelfPlayConfig(games=1, plies=8, max_plies=3)
    search = Scripted(ply=lambda position: position.ply, moves_left=6.5)
    plies = played(subtraction(30, 1), search, config, script([[0] * 8], 8))[1]
    moves_left = samples_of(plies)[2]
    assert moves_left[0, :3].tolist() == [8.5, 7.5, 6.5]


def test_a_game_that_ends_on_the_last_ply_allowed_is_over_by_the_rules_and_not_cut():
    search = Scripted(ply=lambda position: position.ply)
    config = SelfPlayConfig(games=1, plies=4, max_plies=2)
    plies = played(subtraction(5, 3), search, config, script([[2, 1]], 4))[1]
    assert plies.ended[:, 0].tolist() == [False, True, False, True]
    assert not plies.cut.any()
    assert plies.result[1, 0].tolist() == LOSS
    plies = played(subtraction(5, 3), search, config, script([[2, 0]], 4))[1]
    assert plies.cut[:, 0].tolist() == [False, True, False, True]
