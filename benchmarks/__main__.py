"""``python -m benchmarks``: measure, and write the results as Markdown."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType

from airflow_provider_kafka_spark import prepare
from benchmarks.environment import own_environment
from benchmarks.machine import machine_lines, version_line
from benchmarks.rounds import emit
from benchmarks.table import Section

MEASUREMENTS = (
    "bulk",
    "batches",
    "streams",
    "replay",
    "ranges",
    "audit",
    "yarn",
    "planning",
    "windows",
    "sensors",
    "triggerer",
    "growth",
)
#: In parts of others, and in minutes.
SHORT = ("ways",)
#: Disk space for source, target and broker: for each record of the bulk copy, and at least.
_BYTES_PER_RECORD, _LEAST_BYTES = 1_000, 5_000_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen measurements one after the other; 0 if every one was made, whatever its numbers say."""
    options = _parse(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    header = _header(options)
    sections: list[Section] = []
    started = time.monotonic()
    try:
        with own_environment() as folder:
            free, needed = shutil.disk_usage(folder).free, max(_LEAST_BYTES, options.records * _BYTES_PER_RECORD)
            if free < needed:
                emit(
                    f"At least {needed / 1e9:.0f} GB must be free in {folder.parent}; there are {free / 1e9:.1f}. Set "
                    "TMPDIR to a folder with more."
                )
                return 2
            measurements = _measurements(options, folder)
            # As on workers that were prepared: otherwise no job has a class archive.
            with redirect_stdout(sys.stderr):
                if code := prepare.main([]):
                    return code
            for name in options.only:
                sections.append(measurements[name]())
                print(sections[-1].markdown(), flush=True)
                # After each one, so that a failure does not lose earlier results.
                if options.output is not None:
                    options.output.write_text("\n".join([header, *(section.markdown() for section in sections)]))
    except KeyboardInterrupt:
        emit("Interrupted; everything that was started is stopped.")
        return 130
    emit(
        f"Done in {(time.monotonic() - started) / 60:.1f} minutes."
        + (f" Results: {options.output}" if options.output else "")
    )
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure this package against its peers, side by side, on a Kafka broker of its own. See "
        "benchmarks/README.md.",
    )
    parser.add_argument(
        "--only",
        type=_names,
        default=MEASUREMENTS,
        metavar="NAMES",
        help=f"measurements to make, separated by commas: {', '.join(MEASUREMENTS)} (default: all)",
    )
    parser.add_argument(
        "--records",
        type=_positive,
        default=2_000_000,
        help="records of the bulk copies and of the streams (default: 2000000)",
    )
    parser.add_argument("--rounds", type=_positive, default=3, help="measured rounds, after a warm-up (default: 3)")
    parser.add_argument("--sensors", type=_positive, default=200, help="deferred sensors that wait (default: 200)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the results to this file, replacing it")
    options = parser.parse_args(argv)
    if options.output is not None and not options.output.absolute().parent.is_dir():
        parser.error(f"--output: the folder of {options.output} does not exist")
    return options


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in (*MEASUREMENTS, *SHORT)]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(MEASUREMENTS)}; got {text!r}")
    return names


def _positive(text: str) -> int:
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1; got {text!r}")
    return value


def _header(options: argparse.Namespace) -> str:
    lines = [
        "# Results",
        "",
        "Written by `python -m benchmarks --output`; what is measured and how, is in [README.md](README.md).",
        "",
    ]
    lines += [*machine_lines(), version_line()]
    if options.rounds < 3:
        lines.append(f"- **A trial: {options.rounds} round(s) only**")
    return "\n".join([*lines, ""])


def _measurements(options: argparse.Namespace, folder: Path) -> dict[str, Callable[[], Section]]:
    # Imported after the change of environment, which Airflow reads at import.
    from benchmarks import (
        audits,
        batches,
        bulk,
        growth,
        planning,
        ranges,
        replay,
        sensors,
        streams,
        triggerer,
        windows,
        yarn,
    )

    return {
        "bulk": lambda: bulk.measure(options.records, options.rounds, folder),
        "batches": lambda: batches.measure(options.records, options.rounds, folder),
        "ways": lambda: batches.measure_ways(options.records, options.rounds, folder),
        "streams": lambda: streams.measure(options.records, options.rounds, folder),
        "replay": lambda: replay.measure(options.rounds, folder),
        "ranges": lambda: ranges.measure(options.rounds),
        "audit": lambda: audits.measure(options.records, options.rounds, folder),
        "yarn": lambda: yarn.measure(options.records, options.rounds, folder),
        "planning": lambda: planning.measure(options.rounds),
        "windows": lambda: windows.measure(options.rounds),
        "sensors": lambda: sensors.measure(options.sensors, folder),
        "triggerer": lambda: triggerer.measure(options.sensors, folder),
        "growth": growth.measure_all,
    }


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
