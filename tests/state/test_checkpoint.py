from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import CheckpointError, CheckpointInUseError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.streams.batch_notes import BatchNote
from airflow_provider_kafka_spark.core.streams.checkpoint import (
    LARGEST_FILE,
    Batch,
    Checkpoint,
    LatestSubmission,
    Lock,
    StreamManifest,
    commit_text,
)
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.state import checkpoint as checkpoint_module
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder, finished_offsets, read_checkpoint
from tests.core.refusals import refuses

_P = TopicPartition("orders", 0)
_FORM = BatchForm(Trace.HEADERS, True, True, "read_committed", "exactly_once")
_LOCK = Lock("task 'copy' of DAG 'orders', run 'manual'", "local-1", 0)


def _manifest(stream_id: str = "0123456789abcdef") -> StreamManifest:
    return StreamManifest(Binding("A", "", "A"), _FORM, stream_id, {_P: 5})


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _batch(folder: Path, number: int, end: int, *, commit: bool = True) -> None:
    """Spark's files of a batch, without its checksum files."""
    log = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{number},"conf":{{}}}}\n{{"orders":{{"0":{end}}}}}'
    _write(folder / "offsets" / str(number), log)
    _write(folder / "offsets" / f".{number}.crc", "crc")
    if commit:
        _write(folder / "commits" / str(number), commit_text())
        _write(folder / "commits" / f".{number}.crc", "crc")


def _read(location: Path | str) -> Checkpoint:
    found = CheckpointFolder(str(location)).read()
    assert found is not None
    return found


@pytest.fixture
def generation(tmp_path: Path) -> Path:
    """The folder of generation 0, as a run of three batches leaves it, of which the last has no commit."""
    folder = tmp_path / "generation-0"
    _write(folder / "stream.json", _manifest().to_json())
    _write(folder / "metadata", '{"id":"6d9f1c5e-2c0a-4b4e-9d5e-0c8a7c3b2a1f"}')
    _write(folder / "sources" / "0" / "0", '\0v1\n{"orders":{"0":6}}')
    _batch(folder, 0, 10)
    _batch(folder, 1, 20)
    _batch(folder, 2, 30, commit=False)
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are watched for half a second, in place of thirty."""
    monkeypatch.setattr(checkpoint_module, "STALE_SECONDS", 0.5)
    monkeypatch.setattr(checkpoint_module, "LOOK_SECONDS", 0.02)


@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}", "file:{}", " {} "])
def test_reads_what_spark_and_we_wrote(generation: Path, form: str) -> None:
    found = _read(form.format(generation.parent))

    assert (found.number, found.manifest, found.initial) == (0, _manifest(), {_P: 6})
    assert (found.committed, found.uncommitted) == (Batch(1, {_P: 20}), Batch(2, {_P: 30}))


def test_a_stream_stands_where_an_older_batch_ended_in_a_partition_that_the_last_one_lacks(generation: Path) -> None:
    """Spark's driver has asked a broker that did not know it yet. From the beginning, it would be copied twice."""
    lacking = (generation / "offsets" / "1").read_text().replace('{"0":20}', '{"1":7}')
    (generation / "offsets" / "1").write_text(lacking)

    assert _read(generation.parent).finished == {_P: 10, TopicPartition("orders", 1): 7}


@pytest.mark.parametrize("make", [pytest.param(True, id="empty-folder"), pytest.param(False, id="no-folder")])
def test_nothing_there_is_no_checkpoint(tmp_path: Path, make: bool) -> None:
    """The first run finds nothing, and makes nothing. Nothing is watched without a lock."""
    location = tmp_path / "checkpoint"
    if make:
        location.mkdir()

    assert CheckpointFolder(str(location)).read() is None
    assert CheckpointFolder(str(location)).stale_lock() is None
    with pytest.raises(CheckpointError, match=r"There must be a checkpoint at .* there is none"):
        finished_offsets(str(location))
    assert location.exists() == make


def test_the_number_beside_the_generations(tmp_path: Path) -> None:
    """Without one nothing is known of any submission."""
    folder = CheckpointFolder(str(tmp_path))

    assert folder.latest_submission() == 0
    (tmp_path / "submission.json").write_text(LatestSubmission(7).to_json())
    assert folder.latest_submission() == 7
    assert folder.read() is None
    (tmp_path / "submission.json").write_text('{"number":')
    with refuses(CheckpointError, "submission.json in ", "must be whole"):
        folder.latest_submission()


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param(["generation-1"], 1, id="the-newer"),
        pytest.param(["generation-9", "generation-10"], 10, id="by-number-not-by-text"),
        pytest.param(["generation-x", "generation-3-backup", "generation-", "generation-07"], 0, id="others-folders"),
    ],
)
def test_the_newest_generation_counts(generation: Path, others: list[str], expected: int) -> None:
    """What else lies there, such as a copy that somebody made, is not looked at."""
    for name in others:
        _write(generation.parent / name / "stream.json", _manifest("fedcba9876543210").to_json())

    assert _read(generation.parent).number == expected


def test_a_generation_without_its_record(generation: Path) -> None:
    """If it was lost, an older generation in its place would copy again what this one has copied."""
    _write(generation.parent / "generation-1" / "stream.json.partial", "{")
    assert _read(generation.parent).number == 0

    _batch(generation.parent / "generation-1", 0, 40)
    with pytest.raises(CheckpointError, match=r"generation-1 must have the file stream\.json .* it is missing"):
        _read(generation.parent)


def test_reads_a_checkpoint_of_sparks_own(tmp_path: Path) -> None:
    """One that another stream made can be waited for; it has no record."""
    _write(tmp_path / "metadata", '{"id":"6d9f1c5e-2c0a-4b4e-9d5e-0c8a7c3b2a1f"}')
    _write(tmp_path / "sources" / "0" / "0", '\0v1\n{"orders":{"0":6}}')
    _batch(tmp_path, 0, 10)

    found = _read(tmp_path)

    assert (found.manifest, found.finished) == (None, {_P: 10})


@pytest.mark.parametrize("file", ["stream.json", "metadata", "sources/0/0", "offsets/1", "offsets/2", "commits/1"])
@pytest.mark.parametrize(
    "keep", [pytest.param(0, id="empty"), pytest.param(0.5, id="half"), pytest.param(0.99, id="almost-all")]
)
def test_half_a_file_is_an_error(generation: Path, file: str, keep: float) -> None:
    whole = (generation / file).read_text()
    (generation / file).write_text(whole[: int((len(whole.rstrip()) - 1) * keep)])

    with refuses(CheckpointError, f"{file} ") as raised:
        _read(generation.parent)

    assert not raised.value.retriable


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param(["offsets/1", "offsets/2"], "offsets/1 .* is missing, and commits/1 is there", id="offsets"),
        pytest.param(["commits/1"], "batch 2 follows the committed batch 0", id="commit-in-the-middle"),
        pytest.param(["commits/0", "commits/1"], "batch 2 follows no committed batch", id="all-commits"),
        pytest.param(
            ["offsets/0", "offsets/2"], "offsets/0 .* is missing, and offsets/1 is there", id="one-before-last"
        ),
    ],
)
def test_a_missing_file_is_an_error(generation: Path, files: list[str], says: str) -> None:
    """Without it nobody knows what was copied, or Spark would fail once it was started."""
    for file in files:
        (generation / file).unlink()

    with pytest.raises(CheckpointError, match=says):
        _read(generation.parent)


@pytest.mark.parametrize(
    ("batches", "end"), [([], 5), ([998, 999], 999)], ids=["before-the-first", "old-ones-are-gone"]
)
def test_a_stream_stands_where_its_last_batches_or_our_record_say(tmp_path: Path, batches: list[int], end: int) -> None:
    folder = tmp_path / "generation-0"
    _write(folder / "stream.json", _manifest().to_json())
    for number in batches:
        _batch(folder, number, number)

    assert finished_offsets(str(tmp_path)) == {_P: end}


def test_a_stream_may_run_while_it_is_read(generation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits a batch and begins the next between two looks of the reader, which is no damage."""
    listed = Path.iterdir

    def go_on(folder: Path) -> Iterator[Path]:
        found = list(listed(folder))
        if folder.name not in ("offsets", "commits"):
            return iter(found)
        last = max(int(file.name) for file in listed(generation / "offsets") if file.name.isdigit())
        _batch(generation, last, 10 * last + 10)
        _batch(generation, last + 1, 10 * last + 20, commit=False)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", go_on)

    assert finished_offsets(str(generation.parent)) == {_P: 30}


@pytest.mark.parametrize("part", ["", "generation-0/offsets", "generation-0/commits", "generation-0/stream.json"])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, part: str) -> None:
    location = tmp_path / "checkpoint"
    _write(location / "generation-0" / "stream.json", _manifest().to_json())
    odd = location / part
    if part.endswith(".json"):
        odd.unlink()
        odd.mkdir()
    elif part:
        odd.write_text("")
    else:
        location.rename(tmp_path / "away")
        odd.write_text("")

    with pytest.raises(CheckpointError, match="must be readable by the worker") as raised:
        _read(location)

    assert isinstance(raised.value.__cause__, OSError)


def _link(file: Path) -> None:
    """To a file that the worker can read, and those who made the link cannot."""
    file.with_name("private").write_text("{}")
    file.symlink_to(file.with_name("private"))


def _large(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(LARGEST_FILE + 1)


_WITHOUT_END = pytest.mark.parametrize(
    "make",
    [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), _link, _large],
    ids=["named-pipe", "endless", "link", "too-large"],
)


@pytest.mark.timeout(20)
@_WITHOUT_END
@pytest.mark.parametrize("file", ["stream.json", "metadata", "sources/0/0", "offsets/2", "commits/1"])
def test_a_file_that_has_no_end_is_not_read(generation: Path, file: str, make: Callable[[Path], None]) -> None:
    """Others may write to the folder: a task neither hangs nor fills its memory, and the file is named."""
    (generation / file).unlink()
    make(generation / file)

    with pytest.raises(CheckpointError, match=f"{file} must (be a regular file|have at most)"):
        _read(generation.parent)


@pytest.mark.parametrize("folder", ["", "offsets", "commits", "sources", "sources/0"])
def test_a_folder_of_a_checkpoint_that_is_a_link_is_refused(generation: Path, tmp_path: Path, folder: str) -> None:
    """Spark would write where another user of the shared folder wants it."""
    location, linked = generation.parent, generation / folder
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CheckpointError, match=f"{re.escape(str(linked))}' is a link"):
        _read(location)


@pytest.mark.timeout(20)
@_WITHOUT_END
def test_a_lock_that_has_no_end_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """It is no lock that a run has left, and is not taken over as one."""
    make(tmp_path / "lock.json")

    with pytest.raises(CheckpointError, match=r"lock\.json must (be a regular file|have at most)"):
        CheckpointFolder(str(tmp_path)).stale_lock()


@pytest.mark.parametrize("ask", ["read", "stale_lock"])
@pytest.mark.parametrize("location", ["gs://bucket/checkpoint", "nosuch://host/checkpoint"])
def test_a_storage_without_its_provider_is_an_error(location: str, ask: str) -> None:
    with pytest.raises(CheckpointError, match="install the provider of that storage"):
        getattr(CheckpointFolder(location), ask)()


def test_a_location_with_a_password_is_refused_and_not_quoted() -> None:
    with refuses(CheckpointError, "checkpoint_location must have no password") as refused:
        CheckpointFolder("sftp://etl:hunter22@files/orders")
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("checkpoints/orders", id="relative"),
        pytest.param("", id="empty"),
        pytest.param("/", id="root"),
        pytest.param("file://data/checkpoints", id="file-with-a-host"),
        pytest.param("s3a://", id="no-bucket"),
        pytest.param("hdfs:/checkpoints", id="no-host-which-only-hadoop-knows"),
        pytest.param(None, id="null"),
        pytest.param(Path("/data"), id="path-object"),
    ],
)
def test_refuses_a_location_that_is_none(location: object) -> None:
    """Worker and driver would look for it in different places."""
    with refuses(CheckpointError, "must be an absolute path or a URI, such as", f"got {location!r}"):
        CheckpointFolder(location)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("location", "is_local", "uri"),
    [
        pytest.param("/data/orders/", True, "file:///data/orders", id="path"),
        pytest.param("file:///data/orders", True, "file:///data/orders", id="file"),
        pytest.param(" s3a://bucket/orders/ ", False, "s3a://bucket/orders", id="s3a"),
        pytest.param("s3a://bucket", False, "s3a://bucket", id="whole-bucket"),
    ],
)
def test_the_driver_gets_the_uris_of_its_files(location: str, is_local: bool, uri: str) -> None:
    """As URIs with a scheme, since a bare path would lie on Hadoop's default file system."""
    folder = CheckpointFolder(location)

    assert folder.is_local == is_local
    assert folder.lock_uri == f"{uri}/lock.json"
    assert folder.generation_uri(3) == f"{uri}/generation-3"


def test_a_folder_that_can_be_made_is_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not made to find out. What this user may not write, the driver on the same machine may not either."""
    CheckpointFolder(str(tmp_path)).check_writable()
    CheckpointFolder(str(tmp_path / "new" / "er")).check_writable()

    assert list(tmp_path.iterdir()) == []
    with refuses(CheckpointError, "File name too long"):
        CheckpointFolder(f"{tmp_path}/{'x' * 300}").check_writable()
    monkeypatch.setattr("os.access", lambda *_: False)
    with refuses(CheckpointError, "cannot be written by this user"):
        CheckpointFolder(str(tmp_path)).check_writable()


@pytest.mark.parametrize("below", ["", "/orders", "/orders/daily"])
def test_a_file_is_not_a_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "taken").write_text("")

    with refuses(CheckpointError, f"{str(tmp_path / 'taken')!r} is no folder"):
        CheckpointFolder(f"{tmp_path}/taken{below}").check_writable()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_LOCK.format(), id="whole"),
        pytest.param(_LOCK.format()[:20], id="half"),
        pytest.param("", id="empty"),
    ],
)
def test_a_lock_that_does_not_change_has_no_owner(tmp_path: Path, quick: None, text: str) -> None:
    (tmp_path / "lock.json").write_text(text)

    assert CheckpointFolder(str(tmp_path)).stale_lock() == text
    assert (tmp_path / "lock.json").read_text() == text


@pytest.fixture
def beating(tmp_path: Path) -> Iterator[Path]:
    """A lock whose owner lives, and renews it as a driver does: whole or not at all."""
    lock, stop = tmp_path / "lock.json", threading.Event()
    lock.write_text(_LOCK.format())

    def beat() -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            partial = tmp_path / "lock.json.partial"
            partial.write_text(Lock(_LOCK.owner, _LOCK.application_id, number).format())
            partial.rename(lock)

    thread = threading.Thread(target=beat)
    thread.start()
    yield lock
    stop.set()
    thread.join()


def test_a_lock_that_changes_is_in_use(
    tmp_path: Path, quick: None, beating: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pause of the machine is no sign of a dead owner.
    monkeypatch.setattr(checkpoint_module, "STALE_SECONDS", 10)
    with refuses(CheckpointInUseError, f"is in use by {_LOCK}", "max_active_runs=1") as raised:
        CheckpointFolder(str(tmp_path)).stale_lock()

    assert raised.value.retriable


def test_a_lock_that_goes_leaves_the_checkpoint_free(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock.json").write_text(_LOCK.format())
    # It goes while the watcher waits for the first time.
    monkeypatch.setattr("time.sleep", lambda _: (tmp_path / "lock.json").unlink())

    assert CheckpointFolder(str(tmp_path)).stale_lock() is None


def test_a_checkpoint_is_read_or_says_why_not(generation: Path, tmp_path: Path) -> None:
    """Also where bytes are no UTF-8."""
    assert read_checkpoint(str(tmp_path)) == Position({_P: 20})
    assert isinstance(read_checkpoint(str(tmp_path / "elsewhere")), CheckpointError)
    (generation / "stream.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(CheckpointError, match=r"stream\.json .* do not make sense"):
        _read(tmp_path)
    assert isinstance(read_checkpoint(str(tmp_path)), CheckpointError)


def test_a_batch_number_that_spark_cannot_have_is_none(generation: Path) -> None:
    """Spark leaves out what is no 64-bit number, and so does the plan."""
    for folder in ("offsets", "commits"):
        (generation / folder / "9999999999999999999").write_text("")

    assert finished_offsets(str(generation.parent)) == {_P: 20}


def test_notes_that_cannot_be_read_count_as_absent(generation: Path, tmp_path: Path) -> None:
    """One with more segments than anybody reads must not stop the stream."""
    report = JobReport("id", "", (), ("copy",), "", "", 1.0)
    _write(generation / "batches" / "0", BatchNote("task", report).to_json())
    _write(generation / "batches" / "1", "{")
    _write(generation / "batches" / "2", " " * (LARGEST_FILE + 1))
    _write(generation / "batches" / "3", BatchNote("task", report).to_json())

    assert CheckpointFolder(str(tmp_path)).notes(0, range(3)) == {0: BatchNote("task", report)}
