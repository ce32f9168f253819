"""A preset is what it says it is."""

import dataclasses
import re

import pytest

from azchess.search.knobs import SearchKnobs, check_knobs
from azchess.search.presets import PRESETS, preset_named

pytestmark = pytest.mark.fast

KNOBS = {field.name for field in dataclasses.fields(SearchKnobs)}
each_preset = pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)


def test_every_preset_is_found_by_its_own_name():
    assert [preset_named(preset.name) for preset in PRESETS] == list(PRESETS)
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    with pytest.raises(ValueError, match="preset = 'alphago': must be one of alphazero, "):
        preset_named("alphago")


@each_preset
def test_a_printed_preset_tells_all_that_it_sets(preset):
    printed = str(preset)
    check_knobs(preset.knobs)
    assert preset.formula in printed
    assert preset.source in printed
    usual = SearchKnobs()
    for name in KNOBS:
        value = getattr(preset.knobs, name)
        if value != getattr(usual, name) or re.search(rf"\b{name}\b", preset.formula):
            assert f"{name} {value}" in printed
    assert "simulations" not in printed


@each_preset
def test_what_a_formula_names_exists(preset):
    fields = KNOBS | {field.name for field in dataclasses.fields(preset.search)}
    named = re.findall(r"\b[a-z]+_[a-z]+\b", preset.formula)
    assert named
    assert set(named) <= fields


def test_published_constants():
    """Silver et al. 2018 (pseudocode); Danihelka et al. 2022, section 3; mctx 0.0.71."""
    alphazero = preset_named("alphazero").knobs
    numbers = alphazero.c_init, alphazero.c_base, alphazero.noise_fraction, alphazero.noise_alpha
    assert numbers == (1.25, 19652, 0.25, 0.3)
    assert preset_named("alphazero_paper_fpu").knobs == dataclasses.replace(alphazero, fpu=-1.0)
    paper, mctx = preset_named("gumbel_paper"), preset_named("gumbel_mctx")
    assert (paper.knobs.c_visit, paper.knobs.c_scale) == (50, 1.0)
    assert (mctx.knobs.c_visit, mctx.knobs.c_scale) == (50, 0.1)
    assert [paper.search.rescale_values, mctx.search.rescale_values] == [False, True]
