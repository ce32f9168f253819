"""How self-play searches its moves, in full or fast, and which of them it plays."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Key

from azchess.search.decision import Decision
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.root import sample_slot

AMPLE = 2.0**30  # a budget that no search exhausts


def sized(knobs: SearchKnobs, full: Bool[Array, "B"]) -> SearchKnobs:
    """The knobs of the games' next searches: fast ones are small and make no noise (Wu 2019)."""
    budget = jnp.asarray(AMPLE if knobs.budget is None else knobs.budget)
    calm = {
        "noise_fraction": 0.0,
        "root_temperature": 1.0,
        "gumbel_scale": 0.0,
        "forced_visits": 0.0,
        "budget": jnp.minimum(budget, knobs.fast_budget),
    }
    noisy = dataclasses.replace(knobs, budget=budget)
    fast = {name: jnp.where(full, getattr(noisy, name), value) for name, value in calm.items()}
    return dataclasses.replace(noisy, **fast)


def temperature_of(knobs: SearchKnobs, ply: Int32[Array, "B"]) -> Float[Array, "B"]:
    """The temperature at which the moves of these plies are drawn, 0 for the search's own choice.

    `temperature` for the first `temperature_plies`; then it falls towards 0, in a straight line
    over `temperature_decay` plies, but not below `temperature_end` (Lc0). Knobs are `[B]`.
    """
    late = ply - knobs.temperature_plies
    decay = jnp.maximum(knobs.temperature_decay, 1e-6)
    left = jnp.where(late < knobs.temperature_decay, 1.0 - late / decay, 0.0)
    falling = jnp.maximum(knobs.temperature * left, knobs.temperature_end)
    return jnp.where(late < 0, knobs.temperature, falling)


def choose(
    keys: Key[Array, "B"], decision: Decision, ply: Int32[Array, "B"], knobs: SearchKnobs
) -> Int32[Array, "B"]:
    """The slot to play: drawn from the policy while the temperature is above 0, else the search's.

    p ~ (policy + offset / visits)^(1 / temperature), over the moves whose Q is at most
    `value_cutoff` below that of the search's own choice (Lc0); `visit_offset` counts for moves of
    the policy alone, and an unvisited move's Q is the position's value. Where no move is left the
    search's choice is played.
    """
    knobs = per_game(knobs, ply.shape[0])
    column = columns(knobs)
    temperature = temperature_of(knobs, ply)
    visits = jnp.maximum(decision.visits.sum(axis=-1, keepdims=True), 1)
    weight = decision.policy + column.visit_offset / visits
    q = jnp.where(decision.visits > 0, decision.q, decision.value[:, None])
    best = jnp.take_along_axis(q, decision.slot[:, None], axis=1)
    good = (q >= best - column.value_cutoff) & (decision.policy > 0)
    weight = jnp.where(good, jnp.maximum(weight, 0.0), 0.0)
    drawn = sample_slot(keys, weight, temperature)
    draws = (temperature > 0) & (weight > 0).any(axis=-1)
    return jnp.where(draws, drawn, decision.slot)
