"""Every preset searches, prints what it is, and has numbers in their ranges."""

import jax
import pytest

from azchess.games.toy import hash_game
from azchess.search.knobs import check_knobs
from azchess.search.presets import PRESETS, preset
from search.reference import compiled

GAME = hash_game(5, legal=0.8)
each_preset = pytest.mark.parametrize("make", PRESETS, ids=[make.__name__ for make in PRESETS])


@each_preset
def test_a_preset_searches_a_toy_game_with_knobs_in_their_ranges(make):
    found = make(simulations=8)
    check_knobs(found.knobs)
    keys = jax.random.split(jax.random.key(0), 4)
    positions = jax.vmap(GAME.init)(keys)
    decision = compiled(found.search, GAME)(1.0, keys, positions, found.knobs)
    assert (decision.visits.sum(axis=-1) == 8).all()
    assert (decision.label >= 0).all()


@pytest.mark.fast
@each_preset
def test_a_preset_is_found_by_its_name_and_prints_formula_numbers_and_source(make):
    found = preset(make.__name__, 7)
    assert found.name == make.__name__
    assert found.search.simulations == 7
    text = str(found)
    for part in (found.name, found.formula, found.source, "simulations=7"):
        assert part in text
    assert len(text.splitlines()) == 4


def test_a_preset_prints_what_differs_from_the_defaults():
    text = str(preset("nn_chess"))
    assert "search: Puct(simulations=100, ties='notation')" in text
    assert "c_init=1.5, c_factor=0.0" in text


def test_an_unknown_preset_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"no search preset stockfish.*alphazero.*rave"):
        preset("stockfish")
