"""Endgame tables survive any state of the cache folder."""

import numpy as np
import pytest

from azchess.evaluation import oracles
from azchess.evaluation.oracles import cache_path, tablebase


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty cache folder, and no table remembered in memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tablebase.cache_clear()
    yield tmp_path
    tablebase.cache_clear()


def test_a_table_is_built_once_and_then_read_from_the_cache(fresh_cache, monkeypatch):
    built = tablebase("KQvK")
    assert tablebase("KQvK") is built
    assert not built.dtm.flags.writeable
    assert [path.parent for path in fresh_cache.rglob("*.npz")] == [fresh_cache / "azchess"]
    tablebase.cache_clear()
    monkeypatch.setattr(oracles, "build", lambda piece: pytest.fail("built again"))
    np.testing.assert_array_equal(tablebase("KQvK").dtm, built.dtm)


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "not an archive", "one bit", "other content", "other shape"]
)
def test_a_damaged_cache_is_replaced(fresh_cache, damage):
    expected = tablebase("KRvK").dtm
    path = cache_path("KRvK")
    sound = path.read_bytes()
    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 1
    if damage == "other content":
        np.savez(path, dtm=np.zeros_like(expected), crc32=1)
    elif damage == "other shape":
        np.savez(path, dtm=np.zeros(0, np.int8), crc32=0)  # 0 is the checksum of nothing
    else:
        broken = {"empty": b"", "cut": sound[:-9], "not an archive": b"x", "one bit": flipped}
        path.write_bytes(broken[damage])
    tablebase.cache_clear()
    np.testing.assert_array_equal(tablebase("KRvK").dtm, expected)
    assert path.read_bytes() == sound
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_nothing_behind(fresh_cache, monkeypatch):
    def full_disk(path, **arrays):
        path.write_bytes(b"half a table")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    assert tablebase("KQvK").positions(True)[1].max() == 19
    assert list((fresh_cache / "azchess").iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_is_no_obstacle(fresh_cache):
    (fresh_cache / "azchess").write_text("a file where the folder should be")
    assert tablebase("KQvK").positions(True)[1].max() == 19


@pytest.mark.parametrize("variable", [None, "", "relative/folder"])
def test_without_an_absolute_cache_home_the_cache_is_in_the_home_folder(
    variable, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    if variable is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", variable)
    assert cache_path("KQvK").parent == tmp_path / ".cache" / "azchess"
