"""The configuration of a run: every choice of every room, in one frozen dataclass."""

import dataclasses
import importlib
import importlib.util
import json
import pathlib
import sys
import types
import typing
from types import ModuleType
from typing import Any, Literal

from azchess.evaluation.suite import EndingSuite
from azchess.games.chess import ChessGame
from azchess.games.game import Game
from azchess.learning.iterate import Knobs, Setup
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import check_learn_knobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.evaluator import NetworkConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.starts import StandardStart, StartConfig, require_chess
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import check_knobs
from azchess.search.policy import TreeSearch
from azchess.search.presets import preset_named

PRESET = "azchess_config_"
"""Begins the module name of a preset that was loaded from a file."""
PLAIN = {bool, int, float, str, type(None)}
"""Kinds of field whose values in a config.json are checked."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Everything that defines a run; a preset in `configs/` is one of these, named CONFIG."""

    game: Game = ChessGame()
    """The rules; `azchess.games.chess.ChessGame` or `azchess.games.pgx_games.pgx_game(...)`."""
    network: NetworkConfig = TransformerConfig()
    """The network; `TransformerConfig` or a frozen dataclass of yours with `init(game, key)`."""
    search: TreeSearch = Gumbel()
    """The search of self-play; `Puct`, `Gumbel` or any other `TreeSearch`, yours included."""
    selfplay: SelfPlayConfig = SelfPlayConfig()
    learn: LearnConfig = LearnConfig()
    knobs: Knobs = Knobs()
    starts: StartConfig = StandardStart()
    """Where self-play games begin."""
    init_from: str | None = None
    """Folder of a run whose newest network this run starts from (the weights only)."""
    first_reach: float = 1.0
    """Share of the pool of starts (nearest first) in use at iteration 0: a curriculum."""
    reach_iterations: int = 0
    """Iterations over which that share grows to all of the pool, by an equal factor each."""
    capacity: int = 512
    """Replay: plies kept per lane (AlphaZero: about a million games in all)."""
    iterations: int = 100
    seed: int = 0
    checkpoint_every: int = 20
    """Iterations between checkpoints; the last iteration is always saved."""
    keep_latest: int = 2
    """Newest checkpoints that are kept."""
    keep_every: int | None = None
    """Checkpoints at multiples of so many iterations are kept for good."""
    evaluation: tuple[EndingSuite, ...] = ()
    """What `azchess eval` measures, before and after training."""

    def __post_init__(self) -> None:
        if not isinstance(self.game, Game):
            raise ValueError(f"game = {self.game!r}: must be a Game")
        if not isinstance(self.search, TreeSearch):
            raise ValueError(f"search = {self.search!r}: must be a TreeSearch")
        least = {"iterations": 1, "checkpoint_every": 1, "keep_latest": 1, "reach_iterations": 0}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise ValueError(f"{name} = {getattr(self, name)}: must be at least {number}")
        if self.keep_every is not None and self.keep_every < 1:
            raise ValueError(f"keep_every = {self.keep_every}: must be at least 1, or None")
        if not 0.0 < self.first_reach <= 1.0:
            raise ValueError(f"first_reach = {self.first_reach}: must be above 0 and at most 1")
        check_knobs(self.knobs.search)
        check_learn_knobs(self.knobs.learn)
        for suite in self.evaluation:
            require_chess(self.game, suite)
        self.setup()

    def setup(self, mesh: Any = None) -> Setup:
        """The static part of training."""
        return Setup(
            game=self.game,
            search=self.search,
            selfplay=self.selfplay,
            learn=self.learn,
            capacity=self.capacity,
            mesh=mesh,
        )

    def reach(self, iteration: int) -> float:
        """Share of the pool of starts in use at an iteration."""
        if self.reach_iterations == 0:
            return 1.0
        left = max(0.0, 1.0 - iteration / self.reach_iterations)
        return self.first_reach**left


def with_preset(config: RunConfig, name: str) -> RunConfig:
    """The configuration with another search and all its knobs, by the name of a search preset.

    The number of simulations stays. Raises ValueError for a name that is none.
    """
    preset = preset_named(name)
    search = dataclasses.replace(preset.search, simulations=config.search.simulations)
    knobs = dataclasses.replace(config.knobs, search=preset.knobs)
    return dataclasses.replace(config, search=search, knobs=knobs)


def load_config(path: str | pathlib.Path) -> RunConfig:
    """The CONFIG of a preset, a Python file; or the configuration that a run wrote, a JSON file."""
    path = pathlib.Path(path)
    if not path.exists():
        raise ValueError(f"config {path}: no such file")
    if path.suffix == ".json":
        return read_config(path)
    config = getattr(_load_preset(path), "CONFIG", None)
    if not isinstance(config, RunConfig):
        raise ValueError(f"config {path}: must define CONFIG, a RunConfig")
    return config


def _load_preset(path: pathlib.Path) -> ModuleType:
    """Runs a preset as a module of its own, so that its classes can be found again by name."""
    name = PRESET + path.stem.removeprefix(PRESET)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"config {path}: must be a Python file or a config.json")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"config {path}: {type(error).__name__}: {error}") from error
    return module


def fits(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of the plain kinds; an int will do for a float, a bool not."""
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def presets_of(value: Any) -> list[ModuleType]:
    """The presets whose own classes a configuration in JSON names; a run keeps a copy of them."""
    if isinstance(value, list):
        return [module for item in value for module in presets_of(item)]
    if not isinstance(value, dict):
        return []
    module = str(value.get("type", "")).partition(":")[0]
    found = [sys.modules[module]] if module.startswith(PRESET) else []
    return found + [module for item in value.values() for module in presets_of(item)]


def read_config(path: pathlib.Path) -> RunConfig:
    """The configuration in a run's config.json."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"config {path}: not JSON ({error})") from error
    for preset in path.parent.glob(f"{PRESET}*.py"):
        _load_preset(preset)
    config = from_json(value)
    if not isinstance(config, RunConfig):
        raise ValueError(f"config {path}: must hold a RunConfig")
    return config


def to_json(value: Any) -> Any:
    """A configuration as JSON values: dataclasses become objects that name their class."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value).__module__ == "__main__" or "<locals>" in type(value).__qualname__:
            raise ValueError(
                f"{type(value).__qualname__} cannot be found again by name: put it at the top "
                "level of a module or of the preset"
            )
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": name} | fields
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} cannot be written to config.json; start such a run from Python")


def from_json(value: Any) -> Any:
    """The configuration that `to_json` wrote. Raises ValueError for what is unknown in it."""
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    fields = dict(value)
    module, _, name = str(fields.pop("type", None)).partition(":")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"config: type {module}:{name} is unknown") from error
    if not dataclasses.is_dataclass(cls) or not isinstance(cls, type):
        raise ValueError(f"config: type {module}:{name} is not a configuration")
    known = [field.name for field in dataclasses.fields(cls)]
    if unknown := sorted(set(fields) - set(known)):
        raise ValueError(
            f"config: {name} has no field {', '.join(unknown)}; it has {', '.join(known)}"
        )
    made = {key: from_json(item) for key, item in fields.items()}
    kinds = typing.get_type_hints(cls)
    for key, item in made.items():
        union = isinstance(kinds[key], types.UnionType)
        allowed = typing.get_args(kinds[key]) if union else (kinds[key],)
        if typing.get_origin(kinds[key]) is Literal and item not in typing.get_args(kinds[key]):
            choices = ", ".join(map(str, typing.get_args(kinds[key])))
            raise ValueError(f"config: {name}.{key} = {item!r}: must be one of {choices}")
        classes = tuple(kind for kind in allowed if isinstance(kind, type))
        right = fits(item, classes) if PLAIN.issuperset(allowed) else isinstance(item, classes)
        if len(classes) == len(allowed) and not right:
            names = " or ".join(kind.__name__ for kind in classes)
            raise ValueError(f"config: {name}.{key} = {item!r}: must be {names}")
    try:
        return cls(**made)
    except TypeError as error:  # a field is missing, or its value is of another kind
        raise ValueError(f"config: {name} cannot be made: {error}") from error
