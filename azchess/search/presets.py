"""Searches with the names that the field knows them by, each with its constants and source."""

import dataclasses
import re
from typing import Any

from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct


@dataclasses.dataclass(frozen=True)
class Preset:
    """A search and its numbers as someone has published them; printed, it says what they are.

    `formula` is written with the names of the fields and knobs that it reads, whose values are the
    preset's `constants`. The number of simulations is no part of a preset.
    """

    name: str
    search: TreeSearch
    knobs: SearchKnobs
    formula: str
    source: str

    @property
    def constants(self) -> dict[str, Any]:
        """Fields and knobs that the formula names, and those that are not as usual."""
        words = set(re.findall(r"\w+", self.formula))
        values = {}
        for part, usual in ((self.search, type(self.search)()), (self.knobs, SearchKnobs())):
            for field in dataclasses.fields(part):
                value = getattr(part, field.name)
                named = field.name in words or value != getattr(usual, field.name)
                if named and field.name != "simulations":
                    values[field.name] = value
        return values

    def __str__(self) -> str:
        constants = ", ".join(f"{name} {value}" for name, value in self.constants.items())
        rows = {"formula": self.formula, "constants": constants, "source": self.source}
        rows = {"search": type(self.search).__name__} | rows
        lines = [f"  {title:11}{text}" for title, text in rows.items()]
        return "\n".join([self.name, *lines])


PUCT = (
    "Q + (c_init + c_factor log((1 + N + c_base) / c_base)) P sqrt(N) / (1 + n); "
    "unvisited: Q = fpu; root: P mixed with noise_fraction of Dir(noise_alpha)"
)
CONSTANT = (
    "Q + c_init P sqrt(N) / (1 + n); unvisited: Q = fpu; "
    "root: P mixed with noise_fraction of Dir(noise_alpha)"
)
HALVING = (
    "root: halving of the best `considered` by gumbel_scale x Gumbel noise + logits + sigma(Q); "
    "below: softmax(logits + sigma(Q)) - n / (1 + N); sigma(Q) = (c_visit + max n) c_scale Q"
)

ALPHAZERO = Preset(
    name="alphazero",
    search=Puct(),
    knobs=SearchKnobs(c_init=1.25, c_base=19652.0, fpu=0.0),
    formula=PUCT,
    source="Silver et al. 2018, Science 362, Methods and pseudocode; an unvisited move counts 0",
)
ALPHAZERO_PAPER_FPU = Preset(
    name="alphazero_paper_fpu",
    search=Puct(),
    knobs=SearchKnobs(c_init=1.25, c_base=19652.0, fpu=-1.0),
    formula=PUCT,
    source="the same; an unvisited move counts as lost, as one of its authors reported (ELF#140)",
)
NN_CHESS = Preset(
    name="nn_chess",
    search=Puct(),
    knobs=SearchKnobs(c_init=1.5, c_factor=0.0, fpu=0.0),
    formula=CONSTANT,
    source="Silver et al. 2017, Nature 550, Methods: a constant c; its value is a convention",
)
GUMBEL_PAPER = Preset(
    name="gumbel_paper",
    search=Gumbel(considered=16),
    knobs=SearchKnobs(gumbel_scale=1.0, c_visit=50.0, c_scale=1.0),
    formula=f"{HALVING}, Q in [0, 1]",
    source="Danihelka et al. 2022, ICLR: board games, Q unvisited as in appendix D",
)
GUMBEL_MCTX = Preset(
    name="gumbel_mctx",
    search=Gumbel(considered=16, rescale_values=True),
    knobs=SearchKnobs(gumbel_scale=1.0, c_visit=50.0, c_scale=0.1),
    formula=f"{HALVING}, Q rescaled to [0, 1] among the moves of a node (rescale_values)",
    source="mctx.gumbel_muzero_policy, mctx 0.0.71: its defaults",
)

PRESETS = (
    ALPHAZERO,
    ALPHAZERO_PAPER_FPU,
    NN_CHESS,
    GUMBEL_PAPER,
    GUMBEL_MCTX,
)
"""All presets; a new one is a constant above, and a line here."""


def preset_named(name: str) -> Preset:
    """The preset of that name. Raises ValueError with all names for another."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    names = ", ".join(preset.name for preset in PRESETS)
    raise ValueError(f"preset = {name!r}: must be one of {names}")
