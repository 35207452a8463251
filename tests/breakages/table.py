"""Deliberate breakages of the package: each breaks one promise, and its tests must fail by it.

A line of the table has the name, for the command line, and what no longer holds. Below it are the file, text that it
has once (-) and what takes its place (+), line by line but for the indentation of the first one; and the tests, the
cheapest that must fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PACKAGE = "airflow_provider_kafka_spark"


@dataclass(frozen=True, slots=True)
class Breakage:
    """One change of one file of the package.

    :param file: relative to the repository.
    :param tests: node ids.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: Sequence[str]


def _read(table: str) -> Iterator[Breakage]:
    for name, promise, text in re.findall(r"^([\w-]+): (.*)\n((?:  .*\n)*)", table, re.MULTILINE):
        file, *lines = (line.removeprefix("  ") for line in text.splitlines())
        old, new = ("\n".join(line[2:] for line in lines if line.startswith(f"{sign} ")) for sign in "-+")
        yield Breakage(name, promise, f"{_PACKAGE}/{file}", old, new, [t for t in lines if t.startswith("tests/")])


BREAKAGES = tuple(
    _read(
        r"""
# core
open-transaction-read: A copy of committed records ends before an open transaction.
  core/topics/resolve.py
  - return min(state.last_stable, state.high_watermark) if self.read_committed else state.high_watermark
  + return max(state.last_stable, state.high_watermark) if self.read_committed else state.high_watermark
  tests/core/topics/test_resolve.py::test_latest_stops_before_an_open_transaction_and_says_so
retention-gap-unreported: Requested offsets that have aged out are an error, or a gap in the result.
  core/topics/resolve.py
  - return start, [MissingRange(gone, f"aged out: the log now starts at {state.log_start}")]
  + return start, [MissingRange(gone, '')][:0]
  tests/core/topics/test_resolve.py::test_aged_out_records_are_an_error_unless_their_loss_is_permitted
recreated-source-accepted: A retry fails if its source topic was recreated: the same offsets hold other records.
  core/topics/known_topics.py
  - if topic_id and standard_id(now.get(name) or topic_id) != standard_id(topic_id)
  + if topic_id and not now.get(name)
  tests/core/copies/test_plan.py::test_other_records_at_the_same_offsets_are_data_loss
answer-without-an-offset-taken: An answer of a broker that died meanwhile is not taken for 'no record'.
  clients/topic_offsets.py
  - answer.offset >= _NONE:
  + answer.offset >= _NONE - 10_000:
  tests/clients/test_broker_poll.py::test_an_answer_without_an_offset_is_none
window-of-other-times-copied: A window that holds far more records of other times than of its own is refused.
  core/topics/bounds.py
  - if len(outside) >= max(_FEWEST_OUTSIDE,
  + if len(outside) >= max(1_000_000,
  tests/core/topics/test_resolve.py::test_far_more_records_outside_of_a_window_than_inside_are_refused
one-identity-for-all-deployments: Two deployments of Airflow with the same ids do not touch each other's progress.
  core/runs/run_identity.py
  - content = json.dumps([deployment, dag_id,
  + content = json.dumps(["", dag_id,
  tests/core/runs/test_run_identity.py::test_each_part_makes_another_run
recreated-source-taken-over: What was copied from a topic that was recreated since is not taken for delivered.
  core/runs/run_sources.py
  - return any(ids.get(name, now_id) != now_id for name, now_id in _by_name(now).items())
  + return any(ids.get(name, now_id) == "" for name, now_id in _by_name(now).items())
  tests/operators/test_on_rerun.py::test_a_run_of_a_topic_that_was_recreated_is_not_taken_over
first-look-that-failed-stored: A topic that cannot be read is not taken for one that does not exist yet.
  core/conditions/last_run.py
  - topics = scope.selection.matching(snapshot.asked_or_listed)
  + topics = scope.selection.matching(snapshot.names)
  tests/core/conditions/test_last_run.py::test_the_end_of_a_topic_that_cannot_be_read_is_unknown
success-undone-by-a-clear-without-records: A clear that finds nothing to copy does not undo the success before it.
  state/run_state.py
  - result=None,
  -             untrusted_until=self.submission,
  + result=None,
  +             succeeded=False,
  +             untrusted_until=self.submission,
  tests/state/test_run_state.py::test_a_clear_that_finds_no_records_does_not_undo_a_success
mark-of-another-run-taken: A mark of another run at other targets is left alone.
  jobs/run_store.py
  - if request.history.adopts_run or topic in targets or mark.run_id in known
  + if known
  tests/operators/test_identity.py::test_two_deployments_with_the_same_names
map-index-taken-for-an-item: A map index that has another item than before is refused.
  state/item_check.py
  - if earlier != now:
  + if not earlier and now:
  tests/state/test_run_state.py::test_another_item_at_the_map_index_is_refused
first-try-not-remembered: A try that failed in planning has delivered nothing: its retry adopts no run.
  state/run_state.py
  - is_lost = stored == _LOST or (stored is None and not self._try_numbers.is_first)
  + is_lost = not self._try_numbers.is_first
  tests/state/test_run_state.py::test_a_first_try_that_failed_in_planning_is_remembered
ranges-of-a-recreated-topic-accepted: Ranges of a result are lost if their topic is another one now.
  core/topics/known_topics.py
  - if then and now and then != now:
  + if then and not now:
  tests/core/topics/test_known_topics.py::test_ranges_of_another_topic_of_the_same_name_are_lost
ranges-of-a-result-without-ids: The ranges of a result say of which topic they are.
  core/topics/known_topics.py
  - return [{**r, **ids.get(r["topic"], of_cluster)} for r in ranges]
  + return [dict(r) for r in ranges]
  tests/core/copies/test_verification.py::test_the_result_of_a_run_is_as_documented
recreated-target-covered: What went to a target that was deleted and recreated is not covered.
  core/ledger/pairs.py
  - return now is None or _is_another(delivery.target_ids.get(target[1]), now)
  + return now is None and _is_another(delivery.target_ids.get(target[1]), now)
  tests/core/ledger/test_pairs.py::test_what_the_ledger_says_is_what_source_and_targets_have
segments-of-a-recreated-target-taken: Segments to a target that was deleted and recreated say nothing of the new one.
  core/runs/mapped_copies.py
  - if s.source.topic not in gone and s.target.topic not in lost]
  + if s.source.topic not in gone]
  tests/core/runs/test_mapped_copies.py::test_segments_of_a_topic_that_was_recreated_lead_nowhere
delivery-key-ignores-the-filter-by-keys: What was delivered counts only while all that selects or alters stays the same.
  core/copies/identity.py
  - for name, value in transform.items() if name != "topic_map"}
  + for name, value in transform.items() if name not in ("topic_map", "keys")}
  tests/core/copies/test_plan.py::test_all_that_selects_or_alters_records_tells_copies_apart
report-not-compared-with-the-plan: A task is green only if the report has every planned range.
  core/copies/verification.py
  - faults = [f"{r}: not in the report" for r in planned if r not in reported]
  + faults = list[str]()
  tests/core/copies/test_verification.py::test_refuses_a_report_that_does_not_match_the_plan
report-of-any-writer-accepted: Only a report with the MAC by the key of the request counts.
  core/wire/report_mac.py
  - if not hmac.compare_digest(mac.encode(), _mac(report, key).encode()):
  + if len(mac) != len(_mac(report, key)):
  tests/core/wire/test_report_mac.py::test_any_other_report_is_refused
result-is-no-plain-json: What a task returns is plain JSON.
  core/copies/verification.py
  - "target_ranges": of_target.dicts(targets),
  + "target_ranges": [*targets],
  tests/core/copies/test_verification.py::test_the_result_of_a_run_is_as_documented
retriable-error-made-final: Airflow retries what a retry can correct, such as brokers that do not answer.
  failure.py
  - if error.retriable:
  + if error.retriable is None:
  tests/test_failure.py::test_everything_else_passes_as_it_is
ended-token-called-valid: A delegation token that has ended is not valid.
  core/tokens/token_expiry.py
  - soon = [t for t in counted if t.remaining_ms(now_ms) <= min_remaining_ms]
  + soon = [t for t in counted if 0 < t.remaining_ms(now_ms) <= min_remaining_ms]
  tests/core/tokens/test_token_expiry.py::test_valid
unknown-fields-accepted: A request, report or stored state with unknown keys is refused.
  core/wire/codec.py
  - if value.keys() != types.keys():
  + if not value.keys() >= types.keys():
  tests/core/wire/test_codec.py::test_anything_else_is_one_error_that_names_the_place
property-of-a-connection-dropped: A property of a connection without a counterpart is an error, and never dropped.
  core/connection/client_config.py
  - for name in extra.left:
  -         raise extra.error(
  + for name in list(extra.left)[:0]:
  +         raise extra.error(
  tests/core/connection/test_client_config.py::test_refuses_a_connection_that_cannot_serve_both_clients
event-token-in-the-log: The random value of a driver's events is not in the log, where a record could copy it.
  core/wire/job_events.py
  - return (line.replace(token, "***"), None) if event is None else (before, event)
  + return (line, None) if event is None else (before, event)
  tests/core/wire/test_job_events.py::test_anything_else_is_no_event
watcher-announces-twice: A watcher announces each record once; consecutive events do not overlap.
  core/conditions/watch.py
  - offsets = {**self.offsets, **self.pending.offsets}
  + offsets = {**self.pending.offsets, **self.offsets}
  tests/core/conditions/test_watch.py::test_consecutive_announcements_touch_and_never_overlap
overtaken-driver-claims: Only the latest submission may write for a run.
  core/runs/run_protocol.py
  - if mark is not None and mark.token != claimant.token and mark.number >= claimant.number:
  + if mark is not None and mark.token == claimant.token and mark.number > claimant.number:
  tests/core/runs/test_run_protocol.py::test_an_earlier_submission_does_not_get_the_run_back
finished-run-is-not-read-back: A clear writes what the target has lost, also if only the mark says that all is done.
  core/runs/run_protocol.py
  - if is_trusted and mark.state == MarkState.FINISHED.value and not claimant.reads_back:
  + if is_trusted and mark.state == MarkState.FINISHED.value:
  tests/core/runs/test_run_protocol.py::test_what_earlier_deliveries_mean
doubles-called-complete: An audit does not call complete what may be in the target more than once.
  core/audits/audit_result.py
  - past.unmapped or past.evidence.may_have_duplicates
  + past.unmapped
  tests/core/audits/test_audit.py::test_what_may_be_in_the_target_twice_is_not_called_complete
number-is-only-a-clock: The number of a submission exceeds those that are known, whatever a worker's clock shows.
  core/runs/run_protocol.py
  - return max(known + 1, now_ms)
  + return max(1, now_ms)
  tests/core/runs/test_run_protocol.py::test_numbers_only_grow
  tests/model/test_run_protocol_model.py::test_no_green_task_lost_or_doubled_a_record[clocks-and-runs-of-a-stream]
batch-finished-in-another-form: An uncommitted batch of a stream is finished as it was begun.
  core/streams/stream_plan.py
  - if uncommitted:
  -         _raise_if_changed(
  + if not uncommitted:
  +         _raise_if_changed(
  tests/core/streams/test_stream_plan.py::test_an_uncommitted_batch_keeps_its_form
stream-key-has-what-may-change: What was committed of a stream's batch counts after a change that nobody minds.
  core/copies/planned_copy.py
  - if self.stream is not None:
  -             return BatchForm
  + if self.stream is None:
  +             return BatchForm
  tests/operators/test_stream_parameters.py::test_maps_may_grow_within_a_batch
earlier-search-forgotten: After a clear, the target is searched where other plans of the run have written too.
  jobs/remaining.py
  - earlier = request.earlier.searched
  + earlier = request.earlier.target_ranges
  tests/operators/test_on_rerun.py::test_what_a_failed_plan_has_left_is_found_after_other_plans
foreign-state-trusted: What others store as a task's state counts as lost.
  state/task_state.py
  - if is_sealed(mac, [*self._instance, name, value], self._key):
  + if value is not None:
  tests/state/test_task_state.py::test_what_others_have_stored_counts_as_lost
older-state-trusted: A state that is older than the latest submission is no memory of the task.
  operators/bounded_job.py
  - mark.number > state.submission and
  + mark.number < 0 and
  tests/operators/test_on_rerun.py::test_an_older_state_of_the_task_is_no_memory
foreign-event-counted: An asset event that somebody made through Airflow's API is no delivery.
  core/ledger/entry.py
  - if is_by_api(extra):
  + if is_by_api(extra) and MORE in extra:
  tests/operators/test_asset_events.py::test_what_no_task_has_announced_is_not_covered
cut-target-trusted: What a target has acknowledged and lost is written again.
  core/runs/run_protocol.py
  - if claimant.is_cut:
  -         return False
  + if claimant.is_cut and mark.leaders:
  +         return False
  tests/core/runs/test_run_protocol.py::test_what_earlier_deliveries_mean
permitted-loss-trusted: What a try has delivered that permitted a loss does not count for a strict one.
  core/runs/run_protocol.py
  - return key in (claimed, claimed.removesuffix(_PERMITS_LOSS))
  + return key.removesuffix(_PERMITS_LOSS) == claimed.removesuffix(_PERMITS_LOSS)
  tests/core/runs/test_run_protocol.py::test_what_earlier_deliveries_mean
marker-is-lag: The marker of a transaction is no lag.
  jobs/lag_watch.py
  - max(0, end - 1 - committed[place])
  + max(0, end - committed[place])
  tests/operators/test_pause.py::test_the_marker_of_a_transaction_is_no_lag
# jobs
number-not-kept-beside-the-checkpoint: A stream's next submission has a higher number, whatever a worker's clock shows.
  jobs/available_now.py
  - LatestSubmission(number).to_json())
  + LatestSubmission(0).to_json())
  tests/operators/test_available_now.py::test_a_run_after_one_on_a_worker_whose_clock_was_ahead
secret-in-the-report: The driver removes the secrets of the logins from what it reports.
  jobs/driver.py
  - [*logins, {"event secret": request.event_token, "report secret": request.report_key}],
  + [{"event secret": request.event_token, "report secret": request.report_key}],
  tests/jobs/test_driver.py::test_a_report_has_no_secret
secret-in-the-error: The worker removes the secrets of the logins from what a job reports.
  core/wire/fault.py
  - before + redact(self.message, secrets)
  + before + self.message
  tests/core/wire/test_fault.py::test_the_failure_of_a_report_is_the_error_that_the_job_raised_without_secrets
jvm-outlives-its-worker: When the worker is gone, the driver ends with its JVM, which would write on otherwise.
  jobs/worker_watchdog.py
  - if jvm is not None:
  -             _end_parent(jvm)
  + if jvm is not None:
  +             pass
  tests/jobs/test_worker_watchdog.py::test_the_jvm_ends_before_its_python_does
lock-of-a-checkpoint-not-taken: Two runs never use one checkpoint at the same time.
  jobs/checkpoint_lock.py
  - if not taken:
  -         other
  + if taken is None:
  +         other
  tests/jobs/test_checkpoint_lock.py::test_is_refused_while_another_run_holds_it
subquery-permitted: An SQL expression sees its record alone: no table and no file.
  jobs/expressions.py
  - if parsed.containsPattern(catalyst.trees.TreePattern.PLAN_EXPRESSION()):
  + if parsed is None:
  tests/jobs/test_expressions.py::test_a_subquery_is_refused_before_its_files_are_looked_for
no-pause: A job pauses while the consumer group of pause_while_lag is further behind than it may be.
  jobs/lag_watch.py
  - is_paused = self._pause.is_paused(lag, was_paused
  + is_paused = self._pause.is_paused(0, was_paused
  tests/operators/test_pause.py::test_nothing_is_sent_while_the_group_is_behind
driver-follows-a-link: The driver replaces a link in a checkpoint, and does not write to what it leads to.
  jobs/local_files.py
  - partial.rename(path)
  + path.write_bytes(partial.read_bytes())
  +         partial.unlink()
  tests/jobs/test_hadoop_files.py::test_what_a_link_leads_to_is_not_written
missing-piece-not-noticed: The job fails if a piece of the plan was reported by no Spark task.
  jobs/batch.py
  - if missing := sorted(names - result.pieces):
  + if missing := sorted(result.pieces - names):
  tests/jobs/test_batch.py::test_a_piece_that_no_task_reports_is_an_error
# jobs/writer
error-of-an-acknowledgement-ignored: A record counts as written only if the target acknowledged it without an error.
  jobs/writer/AckCallback.java
  - if (error == null) {
  + if (error == null || error != null) {
  tests/jobs/writer/test_sinks.py::test_a_sink[aRecordThatIsTooLargeIsRefusedPermanently]
owner-of-the-run-unchecked: A Spark task of a driver that has lost its run writes nothing.
  jobs/writer/Sink.java
  - if (settings.mark != null && !settings.mark.isSame(found.mark)) {
  + if (settings.mark != null && found.mark == null) {
  tests/jobs/writer/test_sinks.py::test_a_sink[theOwnerIsLookedAtBeforeAnythingIsFenced]
transaction-left-open: A failed Spark task aborts its transaction, which consumers of the target would wait for.
  jobs/writer/RecordWriter.java
  - sink.abort();
  + // Nothing is aborted.
  tests/jobs/writer/test_writer.py::test_the_transaction_ends_with_the_attempt
slot-of-a-later-piece-not-loaded: A Spark task goes on with each of its pieces from what is committed of that piece.
  jobs/writer/TaskClients.java
  - sink.openNext();
  + // Its slot is not loaded.
  tests/jobs/writer/test_batches.py::test_a_later_piece_without_its_slot_is_an_error
position-off-by-one: An attempt goes on with exactly the first record that is not committed.
  jobs/writer/TaskWriter.java
  - } else if (cursor.offset < sink.progress.position()) {
  + } else if (cursor.offset <= sink.progress.position()) {
  tests/jobs/writer/test_writer.py::test_a_second_attempt_writes_nothing_twice
segment-off-by-one: Segments map each offset of the source to the offset of its copy.
  jobs/writer/AckCallback.java
  - progress.addSegment(offset, offset + count, target);
  + progress.addSegment(offset, offset + count, target + 1);
  tests/jobs/writer/test_batches.py::test_segments_map_each_offset
timestamp-not-kept: A record keeps its timestamp.
  jobs/writer/Sink.java
  - preserveTimestamps && record.timestamp >= 0 ? Long.valueOf(record.timestamp) : null;
  + preserveTimestamps && record.timestamp < 0 ? Long.valueOf(0L) : null;
  tests/operators/test_timestamps.py::test_they_arrive_as_they_were
recreated-target-not-compared: Nothing is committed to a target that was deleted or recreated while the job ran.
  jobs/writer/Sink.java
  - awaitAll();
  -         compareTargets();
  + awaitAll();
  +         // They are not compared.
  tests/jobs/writer/test_sinks.py::test_a_sink[aTargetThatIsRecreatedBetweenCommitsIsAnError]
dead-letter-without-reason: A dead letter says why it was rejected.
  jobs/writer/Provenance.java
  - replace(record.headers, reasonHeader, record.rejection.getBytes(StandardCharsets.UTF_8));
  tests/operators/test_dead_letters.py::test_each_record_goes_to_one_of_the_two
filter-by-headers-inverted: A filter by headers selects the records that have them.
  jobs/writer/WantedRecords.java
  - if (!hasOne(found.headers((String) wanted.getKey()), (HashSet) wanted.getValue())) {
  + if (hasOne(found.headers((String) wanted.getKey()), (HashSet) wanted.getValue())) {
  tests/operators/test_dead_letters.py::test_only_wanted_records_are_copied[header-writer-KafkaToKafkaBatchOperator]
end-of-an-exact-window-included: A time window is half-open: a record at its end belongs to the next one.
  jobs/writer/RecordCursor.java
  - return timestamp >= windowStart && timestamp < windowEnd;
  + return timestamp >= windowStart && timestamp <= windowEnd;
  tests/jobs/test_batch.py::test_drops_records_outside_of_an_exact_window
damaged-batch-passed-on: A record batch whose checksum is wrong is an error, and nothing of it is written.
  jobs/writer/BatchReader.java
  - batch.ensureValid();
  -         }
  -         // Also of
  + batch.isValid();
  +         }
  +         // Also of
  tests/jobs/writer/test_batches.py::test_a_damaged_batch_is_an_error_that_names_it
wrong-time-as-bytes: A record that is copied as bytes keeps its timestamp.
  jobs/writer/TargetBatch.java
  - ByteUtils.writeVarlong(timestamp - baseTimestamp, bytes);
  + ByteUtils.writeVarlong(timestamp - maxTimestamp, bytes);
  tests/jobs/writer/test_sinks.py::test_records_as_bytes[writesWhatKafkaReads]
wrong-number-of-headers-as-bytes: The header of a copy takes the place of that of an earlier one.
  jobs/writer/HeaderBytes.java
  - if (record.hasName(i, name)) {
  -                 count--;
  + if (record.hasName(i, name)) {
  +                 count -= 0;
  tests/jobs/writer/test_sinks.py::test_records_as_bytes[theHeaderIsTheLastOne]
wrong-hash-of-a-key-as-bytes: A key has the partition that Kafka's own producer chooses.
  jobs/writer/KeyHash.java
  - private static final int SHIFT = 24;
  + private static final int SHIFT = 23;
  tests/jobs/writer/test_sinks.py::test_records_as_bytes[keysHaveThePartitionOfTheJavaProducer]
hostile-size-believed: A size in a record is checked before it is used.
  jobs/writer/BatchWalker.java
  - headerCount >= 0 && headerCount <= view.remaining() / LEAST_HEADER
  + headerCount >= 0
  tests/jobs/writer/test_sinks.py::test_records_as_bytes[whatLiesIsAnError]
cut-decided-anew: The window that ends at a moment and the one that begins there use one offset.
  core/topics/window_cuts.py
  - found = {at: _found(cluster, p, at) for at in moments if at not in decided}
  + found = {at: _found(cluster, p, at) for at in moments}
  tests/operators/test_windows.py::test_every_record_is_in_exactly_one_window
cut-taken-before-others-have-kept-theirs: Two windows that are planned at once use one offset.
  state/variables.py
  - time.sleep(SETTLING_SECONDS)
  + time.sleep(0)
  tests/state/test_window_cuts.py::test_two_that_decide_a_cut_at_once_use_the_same_one
every-record-of-no-credible-time-read: A search by time does not read a whole log.
  core/topics/record_search.py
  - distance = distance * 2 or STEP
  + distance = 0
  tests/core/topics/test_record_search.py::test_a_log_full_of_times_that_are_not_credible_is_not_read_to_its_end
cut-logs-not-looked-for: A log that was cut and filled again is known by the epochs of its leaders.
  core/topics/log_ends.py
  - return state is not None and state.leader_epoch not in (None, self.epoch)
  + return False
  tests/clients/test_log_cuts.py::test_where_a_log_was_cut
stream-goes-on-behind-a-cut: A stream does not take the records of a log that was cut for those that it has read.
  core/streams/stream_plan.py
  - return min(end, cluster.cut_at.get(p, end))
  + return end
  tests/core/streams/test_cut_logs.py::test_what_follows_a_cut_is_not_what_was_read
progress-on-a-log-that-was-cut: What a run delivered of a log that was cut since does not count.
  state/run_state.py
  - for p, offset in sorted(cuts.items())]
  + for p, offset in ()]
  tests/state/test_run_state.py::test_nothing_counts_of_a_log_that_was_cut
records-outside-of-a-window-not-counted: The job counts the records whose time is outside of the window.
  jobs/writer/RecordCursor.java
  - return ms < countedFrom || ms >= countedUntil;
  + return ms < countedFrom && ms >= countedUntil;
  tests/operators/test_timestamps.py::test_records_from_outside_of_a_window_are_counted_and_copied
# clients
marker-taken-for-a-record: A moment is searched among records: the marker of a transaction is none.
  clients/record_reads.py
  - return offset, ms if kind else -1
  + return position, ms if kind else -1
  tests/clients/test_record_reads.py::test_a_marker_has_the_time_of_now_and_is_no_record
permission-not-asked: A missing permission is a named error before Spark starts.
  clients/permissions.py
  - if names and lacking:
  + if names and lacking == operations:
  tests/operators/test_permissions.py::test_a_plan_needs_what_the_copy_needs
transactions-not-tried: Brokers or logins without transactions are a named error before Spark starts.
  clients/transaction_check.py
  - producer.init_transactions(client.timeout)
  + producer.poll(0)
  tests/clients/test_transaction_check.py::test_brokers_without_transactions
# hooks
unrecorded-application-goes-on: An application whose start Airflow did not record is stopped.
  hooks/spark_job.py
  - # In cluster mode it would continue, and a retry would not know about it.
  -                 submission.on_kill()
  + # In cluster mode it would continue, and a retry would not know about it.
  tests/hooks/test_job_run.py::test_in_cluster_mode_an_unrecorded_application_is_killed
# operators
announced-again-after-a-clear: No asset event announces records that an earlier one has announced.
  operators/announcing.py
  - if earlier is not None and earlier.announced:
  + if earlier is not None and not earlier.announced:
  tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new
plan-makes-an-event: plan_only=True makes no asset event.
  operators/announcing.py
  - self._suppress_asset_events()
  -         unchecked = compile_expressions(
  + unchecked = compile_expressions(
  tests/operators/test_kafka_to_kafka.py::test_plan_only_starts_nothing
plan-compiles-nothing: A plan is refused where its SQL does not compile.
  operators/announcing.py
  - unchecked = compile_expressions(task_try.spark.cluster, planned.transform)
  + unchecked = list[str]()
  tests/operators/test_plan.py::test_a_plan_names_what_only_the_copy_checks
retry-plans-anew: A retry carries out the plan of the first try, although `latest` has moved on.
  operators/bounded_plan.py
  - if not lost and not gone and earlier.target_cluster_id == target.cluster_id:
  + if lost and not gone and earlier.target_cluster_id == target.cluster_id:
  tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan
group-moved-on-another-topic: Offsets of a group are not committed for a target that was recreated while it was read.
  operators/consumer_group.py
  - if name not in now or now[name].topic_id != topic_id:
  + if name not in now or now[name].topic_id is None:
  tests/operators/test_consumer_group.py::test_a_target_that_is_recreated_while_it_is_read_is_noticed
# sensors and triggers
sensor-waits-for-ever: A sensor that pokes returns what it has found.
  sensors/offsets.py
  - return PokeReturnValue(True, self._done(context, result))
  -         if result.text
  + return PokeReturnValue(False, self._done(context, result))
  +         if result.text
  tests/sensors/test_offsets.py::test_what_is_new_is_ready_to_be_replayed
event-before-its-acknowledgement: A watcher sends an event only after the one before it was stored.
  triggers/new_records.py
  - await self._acknowledged.wait()
  + await asyncio.sleep(0.05)
  tests/triggers/test_new_records.py::test_nothing_is_announced_before_the_last_was_kept
# state
delivered-again-in-spite-of-on-rerun: A clear after a success is refused with on_rerun='fail'.
  state/run_state.py
  - if state.succeeded and on_rerun == FAIL_ON_RERUN:
  + if state.succeeded and on_rerun is None:
  tests/state/test_run_state.py::test_a_run_after_a_success_may_be_refused
link-in-a-checkpoint-followed: The folders of a checkpoint are no links, which would decide where the driver writes.
  state/checkpoint.py
  - if isinstance(folder, Path) and folder.is_symlink():
  + if isinstance(folder, Path) and folder.is_file():
  tests/state/test_checkpoint.py::test_a_folder_of_a_checkpoint_that_is_a_link_is_refused
# submission
request-readable-by-all: The file of a request has mode 0600.
  submission/job_files.py
  - os.fchmod(descriptor, 0o600)
  + os.fchmod(descriptor, 0o644)
  tests/submission/test_job_files.py::test_only_this_user_reads_the_request
secret-in-arguments: No secret Spark property is among the arguments of spark-submit.
  submission/spark_properties.py
  - if equals and (name in REDACTION or is_secret(name, value)):
  + if equals and name in REDACTION:
  tests/submission/test_spark_submission.py::test_secret_properties_are_no_arguments
application-named-by-a-record: Only the first start counts, and no line of the driver's output names another one.
  submission/spark_submission.py
  - if self.started_id is None:
  + if started is not None:
  tests/hooks/test_job_run.py::test_quoted_data_is_no_event
# toolchain
connections-inherited-by-spark: Processes that the package starts inherit none of Airflow's connections.
  toolchain/child_environment.py
  - _AIRFLOWS_OWN = ("AIRFLOW_CONN_", "AIRFLOW_VAR_",
  + _AIRFLOWS_OWN = ("AIRFLOW_VAR_",
  tests/toolchain/test_child_environment.py::test_what_is_airflows_own_stays_with_airflow
changed-jar-loaded: A jar that was changed after it was fetched is not loaded.
  toolchain/jar_set.py
  - _check_expected(now, {jar.name: jar.sha256 for jar in jars}, f
  + _check_expected(now, None, f
  tests/toolchain/test_jars.py::test_a_jar_that_has_changed_is_refused
class-archive-of-other-jars: Each class path has a class archive of its own.
  toolchain/class_archive.py
  - self.class_path,
  -             os.environ
  + os.environ
  tests/toolchain/test_class_archive.py::test_one_of_another_class_path_is_not_usable
code-from-a-folder-of-others: No code is loaded from a folder that other users may write.
  toolchain/private_folder.py
  - if status.st_mode & _WRITABLE_BY_OTHERS:
  + if status.st_mode & _WRITABLE_BY_OTHERS & stat.S_ISVTX:
  tests/toolchain/test_jars.py::test_a_cache_that_others_may_write_is_refused
# links, page, commands, connection type and the rest
link-to-nowhere: The button of a task leads to nothing without a page, and with one to the page after the job's end.
  links/spark_application.py
  - return getattr(operator, "spark_application_url", None) or ""
  + return getattr(operator, "spark_ui_url", None) or ""
  tests/operators/test_spark_job.py::test_the_link_after_a_local_job
markup-from-a-header: Names and texts from Airflow's API are shown as text, and never as markup.
  coverage_page/elements.js
  - if (text !== undefined) element.textContent = text;
  + if (text !== undefined) element.innerHTML = text;
  tests/coverage_page/test_page.py::test_nothing_that_the_api_says_is_markup
left-out-by-the-ledger-alone: A run that waited leaves out only what the target has.
  operators/other_copies.py
  - there = there.merge(copy.ranges.intersect(ranges_of_offsets(offsets)))
  + there = there.merge(copy.ranges)
  tests/operators/test_other_copies.py::test_what_the_target_does_not_prove_is_copied
replay-offered-without-rights: A user who may make no runs is offered no replay.
  coverage_page/reading.js
  - may: rights.runs && rights.dags };
  + may: rights.runs || rights.dags };
  tests/coverage_page/test_stubbed_page.py::test_what_the_rights_do_not_allow_is_not_offered
script-of-another-host-permitted: The page runs its own scripts only, and none that is inline.
  coverage_page/static_site.py
  - script-src 'self'; style-src
  + script-src 'self' 'unsafe-inline'; style-src
  tests/coverage_page/test_static_site.py::test_files_are_served_with_their_type_and_a_strict_policy
changed-plan-carried-out: A plan that somebody has changed since it was returned is not carried out.
  operators/sealed_plan.py
  - if not is_sealed(found.seal, _to_be_sealed(found.content, ti)):
  + if ti is None and is_sealed(found.seal, _to_be_sealed(found.content, ti)):
  tests/operators/test_plan.py::test_a_plan_that_somebody_has_changed_is_not_carried_out
changed-bundle-proved: A bundle that somebody has changed proves nothing.
  operators/job_bundle.py
  - if not is_sealed(value.get(_SEAL), ["bundle", content]):
  + if not value and is_sealed(value.get(_SEAL), ["bundle", content]):
  tests/operators/test_job_bundle.py::test_a_bundle_survives_json
stream-ahead-of-its-plan-forgotten: A source that was cut before what a stream has read behind its plan is data loss.
  jobs/available_now.py
  - if epochs:
  -         reached
  + if not epochs:
  +         reached
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
found-records-not-looked-at: A job fails whose target loses, while it runs, what a clear has found there.
  jobs/batch.py
  - acknowledged = acknowledged.and_also(Acknowledged(remaining.found.lasts))
  + acknowledged = acknowledged.and_also(Acknowledged())
  tests/operators/test_lost_records.py::test_a_target_that_is_cut_while_another_partition_is_written
failing-expression-quotes-the-record: No log shows what a record holds on which an expression fails.
  jobs/computed_rows.py
  - return rows._jdf.queryExecution().toRdd().toJavaRDD().mapPartitions(row_guard(context))
  + row_guard(context)
  +     return rows._jdf.queryExecution().toRdd().toJavaRDD()
  tests/jobs/test_expressions.py::test_a_copy_names_the_record
page-calls-a-failed-range-a-gap: What a failed run was to copy is not missing, which would be offered for a replay.
  coverage_page/pairs.js
  - for (const state of ["empty", "unfinished", "failed", "lost"]) {
  + for (const state of ["empty", "unfinished", "lost"]) {
  tests/coverage_page/test_page_modules.py::test_the_page_judges_as_the_command_does
flag-not-parsed: `coverage --target-topic` counts copies to this topic only.
  coverage.py
  - choice = Choice(topic, source, target, options.target_topic, is_option=True)
  + choice = Choice(topic, source, target, is_option=True)
  tests/test_coverage_command.py::test_each_pair_is_judged_by_itself
prepare-fails-with-code-0: The command `prepare` ends with exit code 1 if not all is ready.
  prepare.py
  - return FAILED_CODE
  + return min(READY_CODE, FAILED_CODE)
  tests/test_prepare_command.py::test_a_failure_is_one_line_with_a_name
key-shown-in-the-form: The form of a connection hides what is typed as a key or a password.
  connection_type.py
  - _PATH_OR_TEXT.format("/etc/ssl/copier.key"), {"format": "password"}),
  + _PATH_OR_TEXT.format("/etc/ssl/copier.key"), {"format": "multiline"}),
  tests/clients/test_connection_check.py::test_the_form_is_airflows_and_ours
password-that-forges-a-property: A test broker takes no password that would end its place in a line of properties.
  testing/broker_properties.py
  - if not user or not password or not set(user + password)
  + if not user or not password or not set(user)
  tests/testing/test_kafka_broker.py::test_a_password_that_cannot_be_quoted_is_refused
"""
    )
)
