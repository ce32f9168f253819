"""Files of games and positions as they are handed around: plain, gzipped or zipped text."""

import gzip
import pathlib
import zipfile
import zlib


def read_text(path: str | pathlib.Path, encoding: str = "utf-8") -> tuple[str, str]:
    """The name and the text of a file, taken out of a .gz or out of a .zip that holds one file.

    Raises ValueError for what cannot be unpacked or decoded, and says which file it is.
    """
    path = pathlib.Path(path)
    try:
        name, data = _unpacked(path)
        text = data.decode(encoding)
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError) as error:
        raise ValueError(f"{path}: cannot be unpacked: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not text in {encoding}") from error
    return name, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _unpacked(path: pathlib.Path) -> tuple[str, bytes]:
    if path.suffix.lower() == ".gz":
        return path.stem, gzip.decompress(path.read_bytes())
    if path.suffix.lower() != ".zip":
        return path.name, path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        # What a Mac adds to its archives is no file of ours.
        listed = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        names = [name for name in listed if not name.endswith("/")]
        if len(names) != 1:
            raise ValueError(f"{path}: must hold one file, but holds {len(names)}: {names[:5]}")
        return names[0], archive.read(names[0])
