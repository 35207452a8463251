"""Deliberate breakages of the package: each breaks one promise, and its tests must fail by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breakage:
    """One change of one file of the package.

    :param name: for the command line.
    :param promise: what no longer holds.
    :param file: relative to the repository.
    :param old: text that the file has once.
    :param new: what takes its place, and is nowhere in the file.
    :param tests: node ids: the cheapest that must fail.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: Sequence[str]


BREAKAGES = (
    # core
    Breakage(
        "open-transaction-read",
        "A copy of committed records ends before an open transaction.",
        "airflow_provider_kafka_spark/core/resolve.py",
        "return min(state.last_stable, state.high_watermark) if self.read_committed else state.high_watermark",
        "return max(state.last_stable, state.high_watermark) if self.read_committed else state.high_watermark",
        ["tests/core/test_resolve.py::test_latest_stops_before_an_open_transaction_and_says_so"],
    ),
    Breakage(
        "retention-gap-unreported",
        "Requested offsets that have aged out are an error, or a gap in the result.",
        "airflow_provider_kafka_spark/core/resolve.py",
        'return start, [MissingRange(gone, f"aged out: the log now starts at {state.log_start}")]',
        "return start, [MissingRange(gone, '')][:0]",
        ["tests/core/test_resolve.py::test_aged_out_records_are_an_error_unless_their_loss_is_permitted"],
    ),
    Breakage(
        "recreated-source-accepted",
        "A retry fails if its source topic was deleted and recreated: the same offsets hold other records.",
        "airflow_provider_kafka_spark/core/plan.py",
        "if now is not None and now != topic_id:",
        "if now is not None and not now:",
        ["tests/core/test_plan.py::test_other_records_at_the_same_offsets_are_data_loss"],
    ),
    Breakage(
        "delivery-key-ignores-the-filter-by-keys",
        "What an earlier try delivered counts only while each parameter that selects or alters records stays the same.",
        "airflow_provider_kafka_spark/core/plan.py",
        'for name, value in transform.items() if name != "topic_map"}',
        'for name, value in transform.items() if name not in ("topic_map", "keys")}',
        ["tests/core/test_plan.py::test_all_that_selects_or_alters_records_tells_copies_apart"],
    ),
    Breakage(
        "report-not-compared-with-the-plan",
        "A task is green only if the report has every planned range.",
        "airflow_provider_kafka_spark/core/verification.py",
        'faults = [f"{r}: not in the report" for r in planned if r not in reported]',
        "faults = list[str]()",
        ["tests/core/test_verification.py::test_refuses_a_report_that_does_not_match_the_plan"],
    ),
    Breakage(
        "report-of-any-writer-accepted",
        "Only a report with the MAC by the key of the request counts.",
        "airflow_provider_kafka_spark/core/handoff/report_mac.py",
        "if not hmac.compare_digest(mac.encode(), _mac(report, key).encode()):",
        "if len(mac) != len(_mac(report, key)):",
        ["tests/core/handoff/test_report_mac.py::test_any_other_report_is_refused"],
    ),
    Breakage(
        "result-is-no-plain-json",
        "What a task returns is plain JSON.",
        "airflow_provider_kafka_spark/core/verification.py",
        '"target_ranges": [r.to_dict() for r in targets],',
        '"target_ranges": [*targets],',
        ["tests/core/test_verification.py::test_the_result_of_a_run_is_as_documented"],
    ),
    Breakage(
        "retriable-error-made-final",
        "Airflow retries what a retry can correct, such as brokers that do not answer.",
        "airflow_provider_kafka_spark/failure.py",
        "if error.retriable:",
        "if error.retriable is None:",
        ["tests/test_failure.py::test_everything_else_passes_as_it_is"],
    ),
    Breakage(
        "ended-token-called-valid",
        "A delegation token that has ended is not valid.",
        "airflow_provider_kafka_spark/core/tokens/token_expiry.py",
        "soon = [t for t in counted if t.remaining_ms(now_ms) <= min_remaining_ms]",
        "soon = [t for t in counted if 0 < t.remaining_ms(now_ms) <= min_remaining_ms]",
        ["tests/core/tokens/test_token_expiry.py::test_valid"],
    ),
    Breakage(
        "unknown-fields-accepted",
        "A request, report or stored state with unknown keys is refused.",
        "airflow_provider_kafka_spark/core/codec.py",
        "if value.keys() != types.keys():",
        "if not value.keys() >= types.keys():",
        ["tests/core/test_codec.py::test_anything_else_is_one_error_that_names_the_place"],
    ),
    Breakage(
        "property-of-a-connection-dropped",
        "A property of a connection that has no counterpart in a client is an error, and never dropped.",
        "airflow_provider_kafka_spark/core/client_config.py",
        "    for name in extra.left:\n        raise extra.error(",
        "    for name in list(extra.left)[:0]:\n        raise extra.error(",
        ["tests/core/test_client_config.py::test_refuses_a_connection_that_cannot_serve_both_clients"],
    ),
    Breakage(
        "event-token-in-the-log",
        "The random value of a driver's events is not in the log, where a record could copy it.",
        "airflow_provider_kafka_spark/core/handoff/job_events.py",
        'return (line.replace(token, "***"), None) if event is None else (before, event)',
        "return (line, None) if event is None else (before, event)",
        ["tests/core/handoff/test_job_events.py::test_anything_else_is_no_event"],
    ),
    Breakage(
        "watcher-announces-twice",
        "A watcher announces each record once; consecutive events do not overlap.",
        "airflow_provider_kafka_spark/core/conditions/watch.py",
        "offsets = {**self.offsets, **self.pending.offsets}",
        "offsets = {**self.pending.offsets, **self.offsets}",
        ["tests/core/conditions/test_watch.py::test_consecutive_announcements_touch_and_never_overlap"],
    ),
    Breakage(
        "overtaken-driver-claims",
        "Only the latest submission may write for a run.",
        "airflow_provider_kafka_spark/core/run_protocol.py",
        "if mark is not None and mark.token != claimant.token and mark.number >= claimant.number:",
        "if mark is not None and mark.token == claimant.token and mark.number > claimant.number:",
        ["tests/core/test_run_protocol.py::test_an_earlier_submission_does_not_get_the_run_back"],
    ),
    # jobs
    Breakage(
        "secret-in-the-report",
        "The driver removes the secrets of the logins from what it reports.",
        "airflow_provider_kafka_spark/jobs/driver.py",
        '[*logins, {"event secret": request.event_token, "report secret": request.report_key}],',
        '[{"event secret": request.event_token, "report secret": request.report_key}],',
        ["tests/jobs/test_driver.py::test_a_report_has_no_secret"],
    ),
    Breakage(
        "jvm-outlives-its-worker",
        "When the worker is gone, the driver ends with its JVM, which would write on otherwise.",
        "airflow_provider_kafka_spark/jobs/worker_watchdog.py",
        "        if jvm is not None:\n            _end_parent(jvm)\n",
        "        if jvm is not None:\n            pass\n",
        ["tests/jobs/test_worker_watchdog.py::test_the_jvm_ends_before_its_python_does"],
    ),
    Breakage(
        "lock-of-a-checkpoint-not-taken",
        "Two runs never use one checkpoint at the same time.",
        "airflow_provider_kafka_spark/jobs/checkpoint_lock.py",
        "    if not taken:\n        other",
        "    if taken is None:\n        other",
        ["tests/jobs/test_checkpoint_lock.py::test_is_refused_while_another_run_holds_it"],
    ),
    Breakage(
        "subquery-permitted",
        "An SQL expression sees its record alone: no table and no file.",
        "airflow_provider_kafka_spark/jobs/expressions.py",
        "    if parsed.containsPattern(catalyst.trees.TreePattern.PLAN_EXPRESSION()):\n",
        "    if parsed is None:\n",
        ["tests/jobs/test_expressions.py::test_a_subquery_is_refused_before_its_files_are_looked_for"],
    ),
    Breakage(
        "no-pause",
        "A job pauses while the consumer group of pause_while_lag is further behind than it may be.",
        "airflow_provider_kafka_spark/jobs/lag_watch.py",
        "is_paused = self._pause.is_paused(lag, was_paused",
        "is_paused = self._pause.is_paused(0, was_paused",
        ["tests/operators/test_pause.py::test_nothing_is_sent_while_the_group_is_behind"],
    ),
    Breakage(
        "driver-follows-a-link",
        "The driver replaces a link in a checkpoint, and does not write to what it leads to.",
        "airflow_provider_kafka_spark/jobs/local_files.py",
        "        partial.rename(path)\n",
        "        path.write_bytes(partial.read_bytes())\n        partial.unlink()\n",
        ["tests/jobs/test_hadoop_files.py::test_what_a_link_leads_to_is_not_written"],
    ),
    Breakage(
        "missing-piece-not-noticed",
        "The job fails if a piece of the plan was reported by no Spark task.",
        "airflow_provider_kafka_spark/jobs/batch.py",
        "if missing := sorted(names - result.pieces):",
        "if missing := sorted(result.pieces - names):",
        ["tests/jobs/test_batch.py::test_a_piece_that_no_task_reports_is_an_error"],
    ),
    # jobs/writer
    Breakage(
        "error-of-an-acknowledgement-ignored",
        "A record counts as written only if the target acknowledged it without an error.",
        "airflow_provider_kafka_spark/jobs/writer/AckCallback.java",
        "            sink.refuse(this, error);",
        "            sink.acknowledge(this, range, (RecordMetadata) metadata);",
        ["tests/jobs/writer/test_sinks.py::test_a_sink[aRecordThatIsTooLargeIsRefusedPermanently]"],
    ),
    Breakage(
        "owner-of-the-run-unchecked",
        "A Spark task of a driver that has lost its run writes nothing.",
        "airflow_provider_kafka_spark/jobs/writer/Sink.java",
        "if (settings.mark != null && !settings.mark.isSame(found.mark)) {",
        "if (settings.mark != null && found.mark == null) {",
        ["tests/jobs/writer/test_sinks.py::test_a_sink[theOwnerIsLookedAtBeforeAnythingIsFenced]"],
    ),
    Breakage(
        "transaction-left-open",
        "A failed Spark task aborts its transaction, which consumers of the target would wait for.",
        "airflow_provider_kafka_spark/jobs/writer/RecordWriter.java",
        "            sink.abort();\n",
        "            // Nothing is aborted.\n",
        ["tests/jobs/writer/test_writer.py::test_the_transaction_ends_with_the_attempt"],
    ),
    Breakage(
        "position-off-by-one",
        "An attempt goes on with exactly the first record that is not committed.",
        "airflow_provider_kafka_spark/jobs/writer/TaskWriter.java",
        "} else if (cursor.offset < sink.progress.position()) {",
        "} else if (cursor.offset <= sink.progress.position()) {",
        ["tests/jobs/writer/test_writer.py::test_a_second_attempt_writes_nothing_twice"],
    ),
    Breakage(
        "segment-off-by-one",
        "Segments map each offset of the source to the offset of its copy.",
        "airflow_provider_kafka_spark/jobs/writer/Sink.java",
        "progress.addSegment(sent.offset, sent.offset + count, metadata.offset());",
        "progress.addSegment(sent.offset, sent.offset + count, metadata.offset() + 1);",
        ["tests/jobs/writer/test_batches.py::test_segments_map_each_offset"],
    ),
    Breakage(
        "timestamp-not-kept",
        "A record keeps its timestamp.",
        "airflow_provider_kafka_spark/jobs/writer/Sink.java",
        "settings.preserveTimestamps && record.timestamp >= 0 ? Long.valueOf(record.timestamp) : null;",
        "settings.preserveTimestamps && record.timestamp < 0 ? Long.valueOf(0L) : null;",
        ["tests/operators/test_timestamps.py::test_they_arrive_as_they_were"],
    ),
    Breakage(
        "recreated-target-not-compared",
        "Nothing is committed to a target that was deleted or recreated while the job ran.",
        "airflow_provider_kafka_spark/jobs/writer/Sink.java",
        "        awaitAll();\n        compareTargets();\n",
        "        awaitAll();\n        // They are not compared.\n",
        ["tests/jobs/writer/test_sinks.py::test_a_sink[aTargetThatIsRecreatedBetweenCommitsIsAnError]"],
    ),
    Breakage(
        "dead-letter-without-reason",
        "A dead letter says why it was rejected.",
        "airflow_provider_kafka_spark/jobs/writer/Provenance.java",
        "            replace(record.headers, reasonHeader, record.rejection.getBytes(StandardCharsets.UTF_8));\n",
        "",
        ["tests/operators/test_dead_letters.py::test_each_record_goes_to_one_of_the_two"],
    ),
    Breakage(
        "filter-by-headers-inverted",
        "A filter by headers selects the records that have them.",
        "airflow_provider_kafka_spark/jobs/writer/WantedRecords.java",
        "if (!hasOne(found.headers((String) wanted.getKey()), (HashSet) wanted.getValue())) {",
        "if (hasOne(found.headers((String) wanted.getKey()), (HashSet) wanted.getValue())) {",
        [
            "tests/operators/test_dead_letters.py::test_only_wanted_records_are_copied[header-None-False-KafkaToKafkaBatchOperator]"
        ],
    ),
    Breakage(
        "end-of-an-exact-window-included",
        "A time window is half-open: a record at its end belongs to the next one.",
        "airflow_provider_kafka_spark/jobs/writer/RecordCursor.java",
        "selected = timestamp >= windowStart && timestamp < windowEnd",
        "selected = timestamp >= windowStart && timestamp <= windowEnd",
        ["tests/jobs/test_batch.py::test_drops_records_outside_of_an_exact_window"],
    ),
    Breakage(
        "damaged-batch-passed-on",
        "A record batch whose checksum is wrong is an error, and nothing of it is written.",
        "airflow_provider_kafka_spark/jobs/writer/BatchReader.java",
        "if (checksCrcs && batch.magic() >= 2) {",
        "if (checksCrcs && batch.magic() > 2) {",
        ["tests/jobs/writer/test_batches.py::test_a_damaged_batch_is_an_error_that_names_it"],
    ),
    Breakage(
        "cut-decided-anew",
        "The window that ends at a moment and the one that begins there use one offset.",
        "airflow_provider_kafka_spark/core/window_cuts.py",
        "found = {at: _found(cluster, p, at) for at in moments if at not in decided}",
        "found = {at: _found(cluster, p, at) for at in moments}",
        ["tests/operators/test_windows.py::test_every_record_is_in_exactly_one_window[equal]"],
    ),
    # clients
    Breakage(
        "marker-taken-for-a-record",
        "A moment is searched among records: the marker of a transaction is none.",
        "airflow_provider_kafka_spark/clients/record_reads.py",
        "found.setdefault(p, []).append((offset or 0, ms if error is None and kind else -1))",
        "found.setdefault(p, []).append((positions[p], ms if error is None and kind else -1))",
        ["tests/clients/test_record_reads.py::test_a_marker_has_the_time_of_now_and_is_no_record"],
    ),
    Breakage(
        "permission-not-asked",
        "A missing permission is a named error before Spark starts.",
        "airflow_provider_kafka_spark/clients/permissions.py",
        "if names and lacking:",
        "if names and lacking == operations:",
        ["tests/operators/test_permissions.py::test_a_plan_needs_what_the_copy_needs"],
    ),
    Breakage(
        "transactions-not-tried",
        "Brokers or logins without transactions are a named error before Spark starts.",
        "airflow_provider_kafka_spark/clients/transaction_check.py",
        "        producer.init_transactions(client.timeout)\n",
        "        producer.poll(0)\n",
        ["tests/clients/test_transaction_check.py::test_brokers_without_transactions"],
    ),
    # hooks
    Breakage(
        "unrecorded-application-goes-on",
        "An application whose start Airflow did not record is stopped: a retry would not know of it.",
        "airflow_provider_kafka_spark/hooks/spark_job.py",
        "                # In cluster mode it would continue, and a retry would not know about it.\n"
        "                submission.on_kill()\n",
        "                # In cluster mode it would continue, and a retry would not know about it.\n",
        ["tests/hooks/test_job_run.py::test_in_cluster_mode_an_unrecorded_application_is_killed"],
    ),
    # operators
    Breakage(
        "announced-again-after-a-clear",
        "No asset event announces records that an earlier one has announced.",
        "airflow_provider_kafka_spark/operators/kafka_to_kafka.py",
        "if earlier is not None and earlier.announced:",
        "if earlier is not None and not earlier.announced:",
        ["tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new"],
    ),
    Breakage(
        "plan-makes-an-event",
        "plan_only=True makes no asset event.",
        "airflow_provider_kafka_spark/operators/kafka_to_kafka.py",
        '        """The end of a task that only planned."""\n        self._suppress_asset_events()\n',
        '        """The end of a task that only planned."""\n',
        ["tests/operators/test_kafka_to_kafka.py::test_plan_only_starts_nothing"],
    ),
    Breakage(
        "retry-plans-anew",
        "A retry carries out the plan of the first try, although `latest` has moved on.",
        "airflow_provider_kafka_spark/operators/bounded_copy.py",
        "if not lost and earlier.target_cluster_id == target.cluster_id:",
        "if lost and earlier.target_cluster_id == target.cluster_id:",
        ["tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan"],
    ),
    Breakage(
        "group-moved-on-another-topic",
        "Offsets of a group are not committed for a target that was recreated while it was read.",
        "airflow_provider_kafka_spark/operators/consumer_group.py",
        "if name not in now or now[name].topic_id != topic_id:",
        "if name not in now or now[name].topic_id is None:",
        ["tests/operators/test_consumer_group.py::test_a_target_that_is_recreated_while_it_is_read_is_noticed"],
    ),
    # sensors and triggers
    Breakage(
        "sensor-waits-for-ever",
        "A sensor that pokes returns what it has found.",
        "airflow_provider_kafka_spark/sensors/offsets.py",
        "            return PokeReturnValue(True, self._done(context, result))\n        if result.text",
        "            return PokeReturnValue(False, self._done(context, result))\n        if result.text",
        ["tests/sensors/test_offsets.py::test_what_is_new_is_ready_to_be_replayed"],
    ),
    Breakage(
        "event-before-its-acknowledgement",
        "A watcher sends an event only after the one before it was stored.",
        "airflow_provider_kafka_spark/triggers/new_records.py",
        "                    await self._acknowledged.wait()\n",
        "                    await asyncio.sleep(0.05)\n",
        ["tests/triggers/test_new_records.py::test_nothing_is_announced_before_the_last_was_kept"],
    ),
    # state
    Breakage(
        "delivered-again-in-spite-of-on-rerun",
        "A clear after a success is refused with on_rerun='fail'.",
        "airflow_provider_kafka_spark/state/run_state.py",
        "if state.succeeded and on_rerun == FAIL:",
        "if state.succeeded and on_rerun is None:",
        ["tests/state/test_run_state.py::test_a_run_after_a_success_may_be_refused"],
    ),
    Breakage(
        "link-in-a-checkpoint-followed",
        "The folders of a checkpoint are no links, which would decide where the driver writes.",
        "airflow_provider_kafka_spark/state/checkpoint.py",
        "if isinstance(folder, Path) and folder.is_symlink():",
        "if isinstance(folder, Path) and folder.is_file():",
        ["tests/state/test_checkpoint.py::test_a_folder_of_a_checkpoint_that_is_a_link_is_refused"],
    ),
    # submission
    Breakage(
        "request-readable-by-all",
        "The file of a request has mode 0600.",
        "airflow_provider_kafka_spark/submission/job_files.py",
        "os.fchmod(descriptor, 0o600)",
        "os.fchmod(descriptor, 0o644)",
        ["tests/submission/test_job_files.py::test_only_this_user_reads_the_request"],
    ),
    Breakage(
        "secret-in-arguments",
        "No secret Spark property is among the arguments of spark-submit.",
        "airflow_provider_kafka_spark/submission/spark_properties.py",
        "if equals and (name in REDACTION or is_secret(name, value)):",
        "if equals and name in REDACTION:",
        ["tests/submission/test_spark_submission.py::test_secret_properties_are_no_arguments"],
    ),
    Breakage(
        "application-named-by-a-record",
        "Only the first start of an application counts, and no line of the driver's output names another one.",
        "airflow_provider_kafka_spark/submission/spark_submission.py",
        "        if self._started_id is None:\n",
        "        if started is not None:\n",
        ["tests/hooks/test_job_run.py::test_quoted_data_is_no_event"],
    ),
    # toolchain
    Breakage(
        "connections-inherited-by-spark",
        "Processes that the package starts have none of Airflow's connections in their environment.",
        "airflow_provider_kafka_spark/toolchain/child_environment.py",
        '_AIRFLOWS_OWN = ("AIRFLOW_CONN_", "AIRFLOW_VAR_",',
        '_AIRFLOWS_OWN = ("AIRFLOW_VAR_",',
        ["tests/toolchain/test_child_environment.py::test_what_is_airflows_own_stays_with_airflow"],
    ),
    Breakage(
        "changed-jar-loaded",
        "A jar that was changed after it was fetched is not loaded.",
        "airflow_provider_kafka_spark/toolchain/jar_set.py",
        "_check_expected(now, {jar.name: jar.sha256 for jar in jars}, f",
        "_check_expected(now, None, f",
        ["tests/toolchain/test_jars.py::test_a_jar_that_has_changed_is_refused"],
    ),
    Breakage(
        "class-archive-of-other-jars",
        "Each class path has a class archive of its own.",
        "airflow_provider_kafka_spark/toolchain/class_archive.py",
        "            self.class_path,\n            os.environ",
        "            os.environ",
        ["tests/toolchain/test_class_archive.py::test_one_of_another_class_path_is_not_usable"],
    ),
    Breakage(
        "code-from-a-folder-of-others",
        "No code is loaded from a folder that other users may write.",
        "airflow_provider_kafka_spark/toolchain/private_folder.py",
        "if status.st_mode & _WRITABLE_BY_OTHERS:",
        "if status.st_mode & _WRITABLE_BY_OTHERS & stat.S_ISVTX:",
        ["tests/toolchain/test_jars.py::test_a_cache_that_others_may_write_is_refused"],
    ),
    # links, page, commands, connection type and the rest
    Breakage(
        "link-to-nowhere",
        "The button of a task without a page leads to an empty text, and with one to the page after the job's end.",
        "airflow_provider_kafka_spark/links/spark_application.py",
        'return getattr(operator, "spark_application_url", None) or ""',
        'return getattr(operator, "spark_ui_url", None) or ""',
        ["tests/operators/test_spark_job.py::test_the_link_after_a_local_job"],
    ),
    Breakage(
        "markup-from-a-header",
        "Names and texts from Airflow's API are shown as text, and never as markup.",
        "airflow_provider_kafka_spark/coverage_page/page.js",
        "if (text !== undefined) element.textContent = text;",
        "if (text !== undefined) element.innerHTML = text;",
        ["tests/coverage_page/test_page.py::test_nothing_that_the_api_says_is_markup"],
    ),
    Breakage(
        "script-of-another-host-permitted",
        "The page runs its own scripts only, and none that is inline.",
        "airflow_provider_kafka_spark/coverage_page/static_site.py",
        "script-src 'self'; style-src",
        "script-src 'self' 'unsafe-inline'; style-src",
        ["tests/coverage_page/test_static_site.py::test_files_are_served_with_their_type_and_a_strict_policy"],
    ),
    Breakage(
        "page-calls-a-failed-range-a-gap",
        "What a failed run was to copy is failed and no gap, which would be offered for a replay.",
        "airflow_provider_kafka_spark/coverage_page/coverage.js",
        'for (const state of ["running", "failed", "lost"]) {',
        'for (const state of ["running", "lost"]) {',
        ["tests/coverage_page/test_coverage_module.py::test_what_a_failed_task_has_not_delivered_is_to_be_cleared"],
    ),
    Breakage(
        "flag-not-parsed",
        "`coverage --target-topic` counts copies to this topic only.",
        "airflow_provider_kafka_spark/coverage.py",
        'target = {"target": options.target, "target_topic": options.target_topic}',
        'target = {"target": options.target, "target_topic": None}',
        ["tests/test_coverage_command.py::test_a_target_topic_is_the_only_one_that_counts"],
    ),
    Breakage(
        "prepare-fails-with-code-0",
        "The command `prepare` ends with exit code 1 if not all is ready.",
        "airflow_provider_kafka_spark/prepare.py",
        "        return FAILED_CODE\n",
        "        return min(READY_CODE, FAILED_CODE)\n",
        ["tests/test_prepare_command.py::test_a_failure_is_one_line_with_a_name"],
    ),
    Breakage(
        "key-shown-in-the-form",
        "The form of a connection hides what is typed as a key or a password.",
        "airflow_provider_kafka_spark/connection_type.py",
        '_PATH_OR_TEXT.format("/etc/ssl/copier.key"), {"format": "password"}),',
        '_PATH_OR_TEXT.format("/etc/ssl/copier.key"), {"format": "multiline"}),',
        ["tests/clients/test_connection_check.py::test_the_form_is_airflows_and_ours"],
    ),
    Breakage(
        "proof-overlooks-a-double",
        "The proof for users' own tests fails if a record is in the target twice.",
        "airflow_provider_kafka_spark/testing/copy_proof.py",
        "if len(arrived.get(position, ())) == 1]",
        "if len(arrived.get(position, ())) >= 1]",
        ["tests/e2e/test_copy_proof.py::test_it_sees_every_difference"],
    ),
)
