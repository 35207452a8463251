"""The promises of the documentation, and what else is promised once: the tests that prove each of them.

A line of a table has what is promised; the lines below it have the tests, without parameters. A test of the quick ring
proves a promise only where ``quick`` says why that is enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: Why a test of the quick ring is enough.
QUICK = {
    "rule": "It is a rule, which is decided without a broker, Spark and Airflow.",
    "local": "The real part is a file, a process or a server that the test starts by itself.",
}

GUARANTEES, SECURITY = "docs/explanation/guarantees.md", "docs/explanation/security.md"


@dataclass(frozen=True)
class Promise:
    """A promise, and what proves it.

    :param text: words that are in one paragraph, bullet or row of a table of the page; or a name.
    :param page: empty for what is found in the code.
    :param quick: why tests of the quick ring are enough, as a key of ``QUICK``; empty if they are not.
    """

    text: str
    page: str
    tests: tuple[str, ...]
    quick: str


def _read(table: str, page: str = "") -> tuple[Promise, ...]:
    found = []
    for text, lines in re.findall(r"^([^#\s].*)\n((?:  .*\n)*)", table, re.MULTILINE):
        tests, why = (
            re.findall(r"^  (tests/.*)$", lines, re.MULTILINE),
            re.search(r"^  quick: (.*)$", lines, re.MULTILINE),
        )
        found.append(Promise(text, page, tuple(tests), why[1] if why else ""))
    return tuple(found)


#: A comment is a heading of the page.
OF_GUARANTEES = r"""
# The whole page.
A task is green only when the job's own report proves
  tests/operators/test_kafka_to_kafka.py::test_a_driver_that_dies_without_a_report
  tests/jobs/test_exactly_once.py::test_records_that_a_task_passed_over_are_written_by_the_next_try
  tests/core/copies/test_verification.py::test_refuses_a_report_that_does_not_match_the_plan
The exact offsets are fixed on the worker before Spark starts
  tests/operators/test_kafka_to_kafka.py::test_plan_only_starts_nothing
  tests/jobs/test_batch.py::test_reads_exactly_the_ranges
What is counted as written is what the target acknowledged, record by record
  tests/jobs/writer/test_writer.py::test_writes_all_records_and_reports_them
  tests/jobs/writer/test_sinks.py::test_a_sink
An exit code or a line of a log is no proof
  tests/operators/test_kafka_to_kafka.py::test_a_driver_that_dies_without_a_report
  tests/hooks/test_job_run.py::test_quoted_data_is_no_event
sees each planned record once, as it was: key, value, headers and timestamp
  tests/jobs/test_batch.py::test_copies_byte_for_byte
  tests/operators/test_timestamps.py::test_they_arrive_as_they_were
  tests/jobs/test_exactly_once.py::test_a_retry_goes_on_from_the_committed_progress
Records of the same key keep the order of their source partition
  tests/jobs/test_batch.py::test_reads_many_small_ranges_in_order
The header `x-kafka-spark-source` is added
  tests/jobs/test_batch.py::test_says_where_each_record_came_from
in place of one that an earlier copy has left
  tests/operators/test_dead_letters.py::test_a_chain_of_copies_has_one_header_of_a_name
  tests/jobs/test_batch.py::test_a_record_cannot_pass_another_off_as_delivered
Consecutive windows of one task take every record exactly once
  tests/operators/test_windows.py::test_every_record_is_in_exactly_one_window
A window of which most records have their time
  tests/operators/test_windows.py::test_a_window_of_mostly_other_times_is_refused_before_anything_is_written
With `provenance="segments"` or `None` no header is added
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry

# Crash points
one named error before Spark starts
  tests/operators/test_bad_input.py::test_bad_input
an unknown function or column in an expression
  tests/operators/test_bad_input.py::test_bad_input
an expression of a plan that does not compile
  tests/submission/test_expression_check.py::test_the_workers_spark_compiles_as_the_job_would
an expression that does not compile
  tests/jobs/test_batch.py::test_refuses_a_bad_expression_before_writing
source offsets aged out; a source topic was recreated, or deleted
  tests/operators/test_bad_input.py::test_bad_input
  tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan
  tests/operators/test_bounded_copy.py::test_a_topic_that_is_created_again_while_its_job_starts_is_an_error
the worker is killed while it creates a target
  tests/operators/test_create_target_topics.py::test_a_retry_finds_the_topic_made_or_makes_it_again
a Spark task fails, or an executor is lost
  tests/faults/test_killed.py::test_a_process_is_killed
  tests/jobs/writer/test_writer.py::test_a_second_attempt_writes_nothing_twice
a record that the target refuses
  tests/jobs/test_exactly_once.py::test_a_retry_goes_on_from_the_committed_progress
  tests/jobs/writer/test_writer.py::test_spark_does_not_repeat_what_is_refused_permanently
a JVM of the job has too little memory for a record
  tests/operators/test_bounded_copy.py::test_a_record_for_which_memory_is_too_small_is_named_and_not_tried_a_third_time
the source gives nothing
  tests/jobs/writer/test_writer.py::test_a_source_that_stalls_keeps_no_transaction_open
  tests/jobs/writer/test_writer.py::test_a_source_that_stalls_for_too_long_ends_the_task
the worker is killed, the driver on its machine
  tests/jobs/test_worker_watchdog.py::test_a_job_ends_when_its_worker_is_dead
  tests/operators/test_local_driver.py::test_a_driver_that_is_killed_in_the_middle_of_a_batch
the worker is killed, the driver on YARN or Kubernetes
  tests/yarn/test_whole_way.py::test_a_copy_whose_worker_dies_and_one_that_is_deferred
  tests/kubernetes/test_whole_way.py::test_a_login_by_a_secret_and_a_worker_that_dies
an earlier try still lives, as after a suspension
  tests/jobs/test_late_drivers.py::test_a_driver_wakes_up_after_a_later_one_has_delivered
  tests/jobs/test_exactly_once.py::test_a_driver_whose_run_was_taken_over_is_fenced
the target is deleted or recreated while a try runs
  tests/jobs/test_exactly_once.py::test_while_tasks_write
the driver dies, or its report is lost
  tests/operators/test_kafka_to_kafka.py::test_a_driver_that_dies_without_a_report
  tests/jobs/test_exactly_once.py::test_a_retry_of_what_was_delivered_writes_nothing
the report names fewer records than there are
  tests/jobs/test_exactly_once.py::test_records_that_a_task_passed_over_are_written_by_the_next_try
committed progress has expired
  tests/jobs/test_clears.py::test_progress_of_a_finished_piece_expires
Airflow has lost the task's state
  tests/jobs/test_exactly_once.py::test_a_retry_without_its_state_writes_nothing_twice
the task is killed or times out
  tests/operators/test_kafka_to_kafka.py::test_a_killed_task_fails_and_its_next_try_completes_it
brokers or logins have no transactions
  tests/clients/test_transaction_check.py::test_brokers_without_transactions
the parameters of a retry render to other values
  tests/operators/test_bounded_copy.py::test_a_retry_carries_out_what_its_first_try_was_asked_for
the task is cleared after a failure
  tests/jobs/test_exactly_once.py::test_what_another_plan_delivered_is_looked_for_at_every_try
  tests/jobs/test_clears.py::test_other_pieces_after_a_clear
the task is cleared after a success
  tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new
nothing is written, and nothing is left on the machine
  tests/operators/test_bad_input.py::test_bad_input
Change the target and clear the task: it then writes only what is missing
  tests/jobs/test_exactly_once.py::test_a_retry_goes_on_from_the_committed_progress
If you leave the record out with `where` instead, everything is copied under a new `run_id`
  tests/operators/test_bounded_copy.py::test_a_clear_with_another_transform_writes_all_by_it
are counted again by a second client
  tests/jobs/test_batch.py::test_counts_compacted_offsets_as_gaps
  tests/hooks/test_kafka.py::test_counts_records_that_are_there
Beyond that, `warnings` says that they were not counted
  tests/promises/test_rules.py::test_too_many_gaps_are_a_warning
  quick: rule

# Exactly once
commits with its records how far the piece is
  tests/jobs/writer/test_writer.py::test_writes_all_records_and_reports_them
  tests/jobs/test_exactly_once.py::test_a_retry_goes_on_from_the_committed_progress
Opening a task fences every earlier attempt of it
  tests/jobs/test_exactly_once.py::test_a_driver_whose_run_was_taken_over_is_fenced
A mark at the target's brokers says which submission has the run
  tests/jobs/test_late_drivers.py::test_a_task_that_starts_after_the_retrys_fences_nobody
  tests/clients/test_run_mark.py::test_the_mark_of_another_submission_stays
has the steps, what an absence means, and how they are checked
  tests/model/test_run_protocol_model.py::test_no_green_task_lost_or_doubled_a_record
  quick: rule
A transaction is committed after two seconds or 1,000,000 records
  tests/jobs/writer/test_sinks.py::test_a_sink
If nobody continues it, it ends by itself after 60 s
  tests/clients/test_transaction_check.py::test_a_timeout_that_is_longer_than_a_transaction
  tests/jobs/writer/test_writer.py::test_the_transaction_ends_with_the_attempt

# Limits
Where records without headers may have been written twice, `warnings` and `evidence` of the result say so
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
  tests/jobs/test_clears.py::test_what_segments_do_not_tell_is_written_again
Brokers keep progress and mark for `offsets.retention.minutes`
  tests/operators/test_on_rerun.py::test_where_the_target_cannot_be_read_back_the_proof_counts
a changed plan, as a clear makes it, goes on from the progress of the plan before
  tests/jobs/test_clears.py::test_segments_go_on_under_another_plan
If the task's state in Airflow and the mark are both gone
  tests/operators/test_on_rerun.py::test_a_clear_without_the_state
Source records that have aged out fail a retry even if they were delivered before
  tests/promises/test_limits.py::test_a_retry_whose_records_have_aged_out
A compacted target is never read back
  tests/operators/test_on_rerun.py::test_where_the_target_cannot_be_read_back_the_proof_counts
  tests/jobs/test_exactly_once.py::test_at_least_once_writes_whole_ranges_again_into_a_compacted_target
Batches of a stream that were committed before its target was recreated are not written again
  tests/jobs/test_clears.py::test_the_target_of_an_uncommitted_batch_is_recreated
  tests/operators/test_available_now.py::test_a_run_after_one_on_a_worker_whose_clock_was_ahead

# At least once
uses the same writer without transactions
  tests/jobs/test_exactly_once.py::test_at_least_once_leaves_no_progress
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
So does an executor that is killed, for which Spark blames the task
  tests/faults/test_killed.py::test_a_process_is_killed
the task fails with `DuplicateRecordsError`. With `allow_duplicates=True` the result reports them
  tests/jobs/test_exactly_once.py::test_a_duplicate_is_found_by_every_further_try
A retry reads the target back by the provenance header and writes only what is missing
  tests/jobs/test_batch.py::test_a_retry_writes_only_what_is_missing
With `provenance="segments"` or `None` it writes everything again, and says so in the log
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
It looks at the mark every two seconds and then stops
  tests/jobs/test_late_drivers.py::test_at_least_once_stops_at_its_next_flush
Without the permission to commit the mark it does not stop
  tests/operators/test_on_rerun.py::test_without_a_mark_nothing_counts_as_proved_that_was_not

# How records are read
The plan says which one, and why not a faster one
  tests/operators/test_passed_batches.py::test_a_plan_says_which_way_it_takes
  tests/core/copies/test_batch_path.py::test_the_way_is_chosen_by_what_a_copy_does
`where`, `columns`, `target_topic_expr` or `reject_when` is an error
  tests/core/copies/test_batch_path.py::test_batches_and_sql_contradict_each_other
  tests/operators/test_bad_input.py::test_bad_input
record batches are passed on as they are
  tests/jobs/writer/test_batches.py::test_passes_all_batches
records are copied as bytes, in new batches
  tests/jobs/writer/test_bytes.py::test_both_readers_write_the_same
records are read one by one with Spark's Kafka source
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
What is in a batch stays byte by byte
  tests/jobs/writer/test_batches.py::test_passes_all_batches
  tests/jobs/writer/test_batches.py::test_every_compression
The target must have `compression.type=producer`
  tests/operators/test_passed_batches.py::test_no_batch_is_passed_on_where_something_is_in_the_way
Single batches go as bytes, in the same transaction and in order
  tests/jobs/writer/test_batches.py::test_ranges_that_begin_and_end_inside_of_batches
  tests/jobs/writer/test_batches.py::test_a_compacted_source
  tests/jobs/writer/test_batches.py::test_a_source_with_times_of_arrival
  tests/jobs/writer/test_batches.py::test_batches_at_the_limit_of_the_target
  tests/jobs/writer/test_batches.py::test_small_batches_are_put_together
its key and its value are copied as one piece
  tests/jobs/writer/test_bytes.py::test_both_readers_write_the_same
a hash of the key as the Java producer's chooses the partition
  tests/jobs/writer/test_sinks.py::test_records_as_bytes
a timestamp below -1 is a `TargetError` that names the record
  tests/jobs/writer/test_batches.py::test_a_batch_that_the_producer_splits_is_written_anew
Both keep a timestamp below 0 and a header's name that is not UTF-8
  tests/jobs/writer/test_batches.py::test_what_no_client_can_write_is_passed_on
  tests/jobs/writer/test_bytes.py::test_what_no_client_can_write_goes_as_it_was
The checksum of each batch is verified
  tests/jobs/writer/test_batches.py::test_a_damaged_batch_is_an_error_that_names_it
so is each size in it before it is used
  tests/jobs/writer/test_bytes.py::test_hostile_bytes_are_an_error_that_names_the_batch
Damage after the last offset that is copied of a partition does not concern the copy
  tests/jobs/writer/test_batches.py::test_a_damaged_batch_is_an_error_that_names_it
no more memory is taken than such a record and the places of its headers need
  tests/jobs/writer/test_sinks.py::test_records_as_bytes
What was aborted is left out, as a consumer does
  tests/jobs/writer/test_batches.py::test_aborted_and_open_transactions
format from before Kafka 0.11 are unpacked as a whole
  tests/jobs/writer/test_sinks.py::test_a_reader
Transactions, progress, fencing, retries and counts are the same on all ways
  tests/jobs/writer/test_batches.py::test_goes_on_in_the_middle_of_a_batch
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
a warning of the result then begins with `reader='source'`
  tests/operators/test_passed_batches.py::test_no_batch_is_passed_on_where_something_is_in_the_way
3.5 has such a client
  tests/other_sparks/test_copies.py::test_batches_that_are_passed_on
`max_bytes_per_second` counts a batch
  tests/operators/test_pause.py::test_the_whole_job_keeps_the_pace

# Timestamps
the task refuses a target before Spark starts if it would
  tests/operators/test_timestamps.py::test_a_target_that_would_not_keep_them
replace timestamps (`message.timestamp.type=LogAppendTime`)
  tests/operators/test_timestamps.py::test_a_target_that_would_not_keep_them
refuse them (`message.timestamp.before.max.ms`, `message.timestamp.after.max.ms`)
  tests/operators/test_timestamps.py::test_a_target_that_would_not_keep_them
delete such records at once (`retention.ms`)
  tests/operators/test_timestamps.py::test_a_target_that_would_not_keep_them
The check needs DESCRIBE_CONFIGS on the target
  tests/operators/test_permissions.py::test_optional_permissions_only_lose_a_check
With `target_topic_expr` the job checks only the type of timestamps
  tests/promises/test_limits.py::test_a_target_of_an_expression_that_would_replace_timestamps

# Retries and clears
Airflow retries a task only after errors that a retry can correct
  tests/operators/test_bad_input.py::test_bad_input
  tests/test_failure.py::test_a_final_error_is_final_to_airflow_and_keeps_its_name_and_cause
what is there is never replaced because of a failed request
  tests/state/test_variables.py::test_one_that_was_not_answered_is_not_absent
  tests/state/test_variables.py::test_nothing_is_written_over_what_was_not_answered
  tests/clients/connection/test_airflow_connection.py::test_one_that_airflow_did_not_give_is_asked_for_again
  quick: local
is in Airflow's task state store, for each task instance
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
  tests/operators/test_bounded_copy.py::test_operators_that_one_task_calls_do_their_own_work
A retry of a batch or a replay carries out the plan of the first try that was submitted
  tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan
the retry returns its result without starting Spark
  tests/operators/test_bounded_copy.py::test_a_retry_after_the_end_returns_the_result
  tests/operators/test_available_now.py::test_a_retry_that_finds_all_finished_is_not_skipped
A clear makes a new plan, with what has arrived since
  tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan
are those of the first try, whatever they render to now
  tests/operators/test_bounded_copy.py::test_a_retry_carries_out_what_its_first_try_was_asked_for
Another order of topics or another spelling of the same moment is no difference
  tests/operators/test_bounded_copy.py::test_another_spelling_of_the_same_is_no_difference
Each try takes these as they are now
  tests/operators/test_lost_records.py::test_what_a_strict_try_delivered_counts
  tests/jobs/test_clears.py::test_other_pieces_after_a_clear

# What a run is known by
They are named after the deployment of Airflow, the DAG, the DAG run, the task and, where it is mapped, the item
  tests/core/runs/test_run_identity.py::test_each_part_makes_another_run
  quick: rule
a random name, which the first copy stores in Airflow's variable `kafka_spark_deployment`
  tests/state/test_deployment.py::test_a_deployment_without_a_name_gets_a_random_one_that_stays
  tests/operators/test_identity.py::test_two_deployments_with_the_same_names
**A DAG run that is deleted and made again** under its id is another run
  tests/operators/test_on_rerun.py::test_a_dag_run_that_was_deleted_and_made_again
is what is mapped: the values of the parameters of `expand()` or `expand_kwargs()`
  tests/operators/test_identity.py::test_it_is_what_is_mapped
  quick: rule
If a job was submitted for the earlier one, the task fails and names both
  tests/operators/test_identity.py::test_a_list_that_has_changed_before_a_clear
A retry fails too if the first try of the DAG run had another item and submitted nothing
  tests/state/test_run_state.py::test_another_item_after_one_that_was_not_submitted
  quick: rule
**A retry whose item is the same** has the parameters of the first try, also if templates give others by now
  tests/operators/test_identity.py::test_a_retry_with_the_same_item_has_the_first_parameters
After a clear the item keeps its name, so what was delivered counts, and the parameters are the new ones
  tests/operators/test_identity.py::test_a_clear_with_the_same_item_goes_on_with_other_parameters
An item that was at another index before is found by its content, and its run goes on
  tests/operators/test_identity.py::test_a_list_that_has_changed_before_a_clear
is known by its connection and topics, in any order of the list
  tests/sensors/test_offsets.py::test_a_mapped_sensor_goes_on_where_its_topics_ended

# Clears that write everything again
the target is compacted, and the plan or its pieces have changed, or progress is gone
  tests/operators/test_on_rerun.py::test_where_the_target_cannot_be_read_back_the_proof_counts
the progress of the earlier plan is gone, or does not say where the new one goes on
  tests/jobs/test_clears.py::test_what_segments_do_not_tell_is_written_again
the plan or its pieces have changed, as with an end at `"latest"`
  tests/operators/test_on_rerun.py::test_where_the_target_cannot_be_read_back_the_proof_counts
at least once, without headers or to a compacted target
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
  tests/jobs/test_exactly_once.py::test_at_least_once_writes_whole_ranges_again_into_a_compacted_target
A retry keeps the plan. Exactly once it goes on from its committed progress
  tests/promises/test_deliveries.py::test_a_copy_and_its_retry
  tests/jobs/test_exactly_once.py::test_a_retry_goes_on_from_the_committed_progress

# Clears after a success
It looks for the earlier records in the target, by their `run_id`, and writes what is not there
  tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new
It writes everything again, under a new `run_id`. The plan has a warning
  tests/operators/test_on_rerun.py::test_a_clear_may_be_refused_or_copy_again
It fails with `AlreadyDeliveredError`
  tests/operators/test_on_rerun.py::test_a_clear_may_be_refused_or_copy_again
the run leaves out what it finds in the target, by the headers of the other run
  tests/operators/test_other_copies.py::test_only_what_is_left_is_copied
  tests/operators/test_other_copies.py::test_what_the_target_does_not_prove_is_copied
Where it cannot look, it fails with `AlreadyDeliveredError`
  tests/operators/test_other_copies.py::test_what_cannot_be_left_out_is_refused_or_copied_again
`delivered_before` of the result says how many records were there
  tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new
  tests/jobs/test_batch.py::test_a_retry_finds_deliveries_of_a_topic_expression
What was deleted from the target, or aged out of it, is written again
  tests/operators/test_on_rerun.py::test_a_clear_writes_again_what_the_target_has_lost
What earlier runs have proved and committed is left out, also if the plan has changed
  tests/operators/test_passed_batches.py::test_two_plans_in_turn
If that is not known, all of it is written again, with a warning
  tests/jobs/test_clears.py::test_what_segments_do_not_tell_is_written_again
A plan that has failed in the middle goes on later, also if the plan before it has succeeded again meanwhile
  tests/operators/test_passed_batches.py::test_two_plans_in_turn
If the plan is the same, the earlier proof counts, and nothing is written
  tests/operators/test_on_rerun.py::test_where_the_target_cannot_be_read_back_the_proof_counts
An asset event announces only places in the target that no event has announced
  tests/operators/test_on_rerun.py::test_a_clear_after_a_success_writes_only_what_is_new
  tests/e2e/test_dags.py::test_only_a_delivery_makes_an_event
The task needs READ on the target
  tests/operators/test_permissions.py::test_exactly_these_acls_are_enough
`[state_store] default_retention_days` does not delete it
  tests/state/test_run_state.py::test_each_success_announces_what_it_delivered
  quick: rule
With `[state_store] clear_on_success = True` Airflow deletes it after each success
  tests/operators/test_on_rerun.py::test_a_clear_without_the_state
If somebody deletes it nevertheless, the run is found by its mark at the target's brokers
  tests/operators/test_on_rerun.py::test_a_clear_without_the_state
and the target is read back all the same
  tests/operators/test_on_rerun.py::test_a_clear_without_the_state
so for those the value is always `"missing_only"`
  tests/promises/test_limits.py::test_a_clear_of_an_operator_that_a_function_calls
A stream continues from its checkpoint, in any case
  tests/operators/test_bad_input.py::test_bad_input
  tests/operators/test_available_now.py::test_three_runs_with_production_in_between
counts only while these stay the same
  tests/operators/test_bounded_copy.py::test_a_clear_with_another_transform_writes_all_by_it
  tests/operators/test_bounded_copy.py::test_a_connection_that_leads_to_another_cluster_is_another_source
  tests/core/runs/test_run_protocol.py::test_each_single_change_changes_the_key
if one is another topic by now, recreated or of another cluster, nothing of that run counts, and the result warns
  tests/operators/test_on_rerun.py::test_a_run_of_a_topic_that_was_recreated_is_not_taken_over
or a `source_conn_id` that leads to another cluster, ends a retry with `DataLossError`
  tests/operators/test_kafka_to_kafka.py::test_a_retry_uses_the_first_plan
  tests/operators/test_bounded_copy.py::test_a_connection_that_leads_to_another_cluster_is_another_source
So does a source whose log was
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
If a partition has another leader later, the brokers are asked
  tests/clients/test_log_cuts.py::test_where_a_log_was_cut
  tests/core/streams/test_cut_logs.py::test_only_partitions_with_another_leader_are_asked
before an offset that a stream has read, or within its uncommitted batch
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
  tests/core/streams/test_cut_logs.py::test_what_follows_a_cut_is_not_what_was_read
before the end of a plan, and the task is retried
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
  tests/state/test_run_state.py::test_nothing_counts_of_a_log_that_was_cut
before the end of a plan, while its job runs
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
  tests/core/copies/test_plan.py::test_a_log_that_was_cut_below_the_plan_is_data_loss
before the end of a window, as it was decided and kept
  tests/operators/test_windows.py::test_a_window_begins_where_its_log_was_cut
  tests/core/topics/test_window_cuts.py::test_a_log_that_was_cut_and_filled_again
before the start of a window, as it was decided and kept
  tests/operators/test_windows.py::test_a_window_begins_where_its_log_was_cut
  tests/state/test_window_cuts.py::test_a_log_that_was_cut_is_asked_about_and_remembered
What was copied from the part that was cut stays in the target
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
A target whose log is cut has lost what it had acknowledged
  tests/operators/test_lost_records.py::test_what_a_target_has_lost_is_written_again
  tests/operators/test_lost_records.py::test_a_target_that_is_cut_while_its_job_runs
  tests/core/runs/test_run_protocol.py::test_what_earlier_deliveries_mean
A sensor with `since="last_run"` and a watcher see a cut in the same way
  tests/clients/test_log_cuts.py::test_where_a_log_was_cut
  tests/core/conditions/test_last_run.py::test_a_log_that_was_cut_and_filled_again_is_asked_about
  tests/core/conditions/test_watch.py::test_a_log_that_was_cut_and_filled_again
The rest of a log that was cut is read too
  tests/operators/test_lost_records.py::test_other_records_at_the_same_offsets
  tests/core/streams/test_cut_logs.py::test_what_follows_a_cut_is_not_what_was_read
What a strict try has delivered counts when its retry permits a loss
  tests/operators/test_lost_records.py::test_what_a_strict_try_delivered_counts
Clear the task to copy what is there now, or pass `fail_on_data_loss=False`
  tests/operators/test_bounded_copy.py::test_a_recreated_topic_is_copied_from_its_beginning
A result speaks of the topics that it was made of
  tests/operators/test_crossed_results.py::test_ranges_are_of_the_topic_that_had_them
`DataLossError`; with `fail_on_data_loss=False` all of it is in `missing_ranges`, and nothing is read in its place
  tests/operators/test_crossed_results.py::test_ranges_are_of_the_topic_that_had_them
  tests/operators/test_crossed_results.py::test_ranges_of_two_topics_of_one_name_are_refused
`DataLossError`, or the topic counts from its beginning
  tests/operators/test_crossed_results.py::test_a_sensor_does_not_count_from_the_offsets_of_another_topic
offsets of a sensor as `starting_offsets` or `ending_offsets`
  tests/operators/test_crossed_results.py::test_offsets_of_another_topic_bound_no_copy
`PlanOutdatedError`, also for the targets
  tests/operators/test_plan.py::test_a_plan_that_no_longer_holds_copies_nothing
`TopicRecreatedError`, also for the targets
  tests/operators/test_crossed_results.py::test_an_audit_compares_no_other_topics
its segments are left out, with a warning; records that only they lead to are missing
  tests/operators/test_consumer_group.py::test_results_of_an_earlier_target_do_not_hide_those_of_the_new_one
the entry does not count, also if its target was recreated
  tests/operators/test_crossed_results.py::test_what_went_to_a_target_that_was_recreated_is_not_covered
  tests/operators/test_crossed_results.py::test_the_command_asks_which_target_is_there_now
Ranges that an author has written have no ids
  tests/operators/test_crossed_results.py::test_a_result_of_an_older_version_is_taken_with_a_warning
A result without ids, of an older version or of brokers that return none, is taken, with a warning
  tests/operators/test_crossed_results.py::test_a_result_of_an_older_version_is_taken_with_a_warning
  tests/operators/test_crossed_results.py::test_an_audit_of_an_older_result_says_what_is_not_checked

# Streams
with the same counts, the same header and the same proof
  tests/operators/test_available_now.py::test_three_runs_with_production_in_between
  tests/operators/test_available_now.py::test_transforms_are_those_of_a_batch
Spark commits the batch to the checkpoint when every record of it was acknowledged
  tests/operators/test_stream_parameters.py::test_a_batch_is_finished_as_it_was_begun
A reset begins `generation-1/`
  tests/operators/test_available_now.py::test_a_run_after_one_on_a_worker_whose_clock_was_ahead
which does not read again what an earlier try has finished, has from there
  tests/operators/test_available_now.py::test_segments_of_what_a_try_finished_before_it_died
What another DAG run has finished is announced by that run only
  tests/operators/test_available_now.py::test_a_task_announces_what_its_own_tries_have_finished
a crash in the middle of a batch
  tests/operators/test_local_driver.py::test_a_driver_that_is_killed_in_the_middle_of_a_batch
two runs at once
  tests/operators/test_available_now.py::test_two_runs_at_once_are_refused_and_the_lock_of_a_dead_one_is_taken_over
a driver that cannot renew its lock for 20 s
  tests/jobs/test_checkpoint_lock.py::test_a_run_that_cannot_renew_its_lock_ends
  tests/operators/test_available_now.py::test_two_runs_at_once_are_refused_and_the_lock_of_a_dead_one_is_taken_over
another definition with this checkpoint
  tests/operators/test_stream_parameters.py::test_a_batch_is_finished_as_it_was_begun
a crash in a batch, and then another `provenance`
  tests/operators/test_stream_parameters.py::test_a_batch_is_finished_as_it_was_begun
a worker or a driver whose clock is wrong
  tests/operators/test_available_now.py::test_a_run_after_one_on_a_worker_whose_clock_was_ahead
  tests/operators/test_available_now.py::test_what_an_unfinished_batch_has_written_is_looked_for_after_the_ends_before_its_run
offsets aged out; a topic was deleted or recreated
  tests/operators/test_available_now.py::test_what_is_gone_is_an_error_unless_its_loss_is_permitted
a topic that the stream has read can no longer be seen by the login
  tests/operators/test_permissions.py::test_a_topic_that_a_stream_may_not_see_any_more_was_not_deleted
brokers do not describe a topic or a partition that the stream has read
  tests/hooks/test_kafka.py::test_a_topic_that_only_a_list_lacks_is_asked_for_again
  tests/core/streams/test_stream_plan.py::test_a_partition_of_the_same_topic_was_not_deleted
a checkpoint with a damaged or missing file
  tests/operators/test_bad_input.py::test_bad_input
  tests/state/test_checkpoint.py::test_half_a_file_is_an_error
a record that was not acknowledged
  tests/operators/test_stream_parameters.py::test_a_batch_is_finished_as_it_was_begun
a report that was rejected, or could not be checked since a broker did not answer
  tests/operators/test_available_now.py::test_what_was_not_proved_is_looked_at_again
an open transaction
  tests/operators/test_available_now.py::test_transactions
The run that finishes a batch names it, reads exactly its offsets
  tests/operators/test_available_now.py::test_a_batch_without_its_commit_is_finished_and_not_doubled
All other parameters may change at any time, and maps of topics and schema ids may grow
  tests/operators/test_stream_parameters.py::test_all_else_may_change_within_a_batch
  tests/operators/test_stream_parameters.py::test_maps_may_grow_within_a_batch
With `fail_on_data_loss=False` what is gone is in `missing_ranges`
  tests/operators/test_available_now.py::test_what_is_gone_is_an_error_unless_its_loss_is_permitted
A topic that was recreated is read from its beginning, under a new generation
  tests/operators/test_available_now.py::test_what_is_gone_is_an_error_unless_its_loss_is_permitted
With `delivery="at_least_once"` the provenance header tells what the target has already
  tests/jobs/test_clears.py::test_at_least_once_and_back
an uncommitted batch is written again as a whole, and the log says so
  tests/operators/test_passed_batches.py::test_an_uncommitted_batch_of_a_stream_is_written_again_at_least_once

# Limits of streams
The copy of a batch is a job of its own, on the pages of jobs and SQL
  tests/jobs/test_batch.py::test_reads_many_small_ranges_in_order
The lock is exclusive on HDFS and local disks
  tests/jobs/test_hadoop_files.py::test_of_many_at_once_one_creates_a_file

# Sensors and watchers
the same answer: each check judges by what the broker says then
  tests/sensors/test_offsets.py::test_what_is_new_is_ready_to_be_replayed
  tests/sensors/test_offsets.py::test_reschedule_mode_frees_the_worker_between_looks
is in the ranges if it is committed when the check is made
  tests/sensors/test_offsets.py::test_records_that_come_while_it_waits_end_the_wait
is reached only by records that are there and have a credible time
  tests/operators/test_windows.py::test_a_sensor_is_met_by_records_that_are_there
  tests/sensors/test_offsets.py::test_only_a_record_of_a_credible_time_reaches_a_moment
a partition without an answer is no empty one
  tests/clients/test_broker_poll.py::test_an_answer_without_an_offset_is_none
one error at the first check, before anything is deferred
  tests/sensors/test_offsets.py::test_bad_input_is_one_clear_error_at_once
triggers and events hold the connection's id only
  tests/triggers/test_condition.py::test_a_connection_that_cannot_be_used_ends_its_own_triggers
  tests/triggers/test_new_records.py::test_its_form_in_the_database_is_stable_and_without_secrets
one sensor's failure is not another's
  tests/triggers/test_condition.py::test_one_that_ends_takes_nothing_from_the_others
the client is made again, and all continue to wait
  tests/triggers/test_condition.py::test_a_broker_that_goes_and_comes_back_is_waited_for
within two intervals after the records arrive
  tests/triggers/test_condition.py::test_two_hundred_wake_within_two_rounds_over_one_client
a watcher announces every record, without overlaps
  tests/triggers/test_new_records.py::test_each_record_is_announced_once_over_restarts
A deleted topic, a hidden group or a damaged checkpoint fails only the sensor that asks for it
  tests/triggers/test_condition.py::test_one_that_ends_takes_nothing_from_the_others
  tests/clients/test_broker_poll.py::test_what_a_login_may_not_see_fails_only_who_asks_for_it
  tests/triggers/test_shared_poll.py::test_an_answer_has_what_each_one_needs
the same event, with the same number, is made again
  tests/triggers/test_new_records.py::test_an_event_that_may_not_have_been_kept_is_made_again_unchanged
"""

OF_SECURITY = r"""
# Who is trusted
task log, XCom, rendered fields, Airflow's database, Spark's UI and event log, arguments of processes
  tests/e2e/test_airflow.py::test_no_secret_where_it_does_not_belong
a Secret that the driver's pod owns
  tests/kubernetes/test_whole_way.py::test_a_login_by_a_secret_and_a_worker_that_dies
the login and the key of the report's MAC, in files of mode 0600 on a disk
  tests/operators/test_job_bundle.py::test_secrets_are_in_secrets_only
  tests/operators/test_job_bundle.py::test_files_are_private_and_can_be_removed

# No secret where it does not belong
Spark properties whose name or value contains one of these words
  tests/core/test_secrets.py::test_what_goes_to_a_file_is_hidden_everywhere
  tests/submission/test_spark_properties.py::test_spark_reads_what_was_meant

# Files of a job
in the worker's temporary folder, with mode 0700, as long as the task runs
  tests/submission/test_spark_submission.py::test_a_job_keeps_to_its_folder
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
the keytab in the Extra of a Spark connection
  tests/submission/test_spark_submission.py::test_a_keytab_of_the_spark_connection
  quick: local
A worker that is killed leaves it, and the next job of the same user on the same machine
  tests/toolchain/test_temporary_folder.py::test_what_a_killed_worker_left_is_removed_by_the_next
  tests/toolchain/test_temporary_folder.py::test_another_process_of_the_same_number_owns_nothing
  quick: local

# Spark's options
only refer to the file (`${file:<path>:<name>}`)
  tests/e2e/test_airflow.py::test_no_secret_where_it_does_not_belong
  tests/core/spark/test_secret_references.py::test_secrets_are_referred_to
No other file can be referred to
  tests/clients/test_kafka_jvm.py::test_the_client_reads_what_options_refer_to

# Files on a cluster
On a cluster the file of logins is sent by `--files`
  tests/standalone/test_client_mode.py::test_both_logins_are_tokens
  tests/yarn/test_whole_way.py::test_a_copy_whose_worker_dies_and_one_that_is_deferred
stays, which has ended with the job. Nothing of the connection's login has been there
  tests/standalone/test_client_mode.py::test_both_logins_are_tokens

# Spark's UI and ports
so it cannot end jobs, and gives no thread dumps and heap histograms
  tests/operators/test_local_driver.py::test_keeps_to_the_loopback_interface_and_to_the_jobs_folder
the UI and all ports of the driver are on the loopback interface of the worker
  tests/operators/test_local_driver.py::test_keeps_to_the_loopback_interface_and_to_the_jobs_folder

# What a local driver leaves
With a local master they are in the job's folder (`spark.local.dir`)
  tests/operators/test_local_driver.py::test_keeps_to_the_loopback_interface_and_to_the_jobs_folder
has a private one, which is removed with it
  tests/operators/test_local_driver.py::test_keeps_to_the_loopback_interface_and_to_the_jobs_folder
  tests/clients/test_kafka_jvm.py::test_what_it_unpacks_is_nobody_elses
The crash report of a JVM on the worker
  tests/operators/test_local_driver.py::test_keeps_to_the_loopback_interface_and_to_the_jobs_folder
  tests/clients/test_kafka_jvm.py::test_a_jvm_that_crashes_leaves_nothing

# Code, files and processes
is loaded only from where nobody else can put any
  tests/toolchain/test_private_folder.py::test_a_folder_of_another_user_is_refused
  tests/toolchain/test_jars.py::test_a_cache_that_others_may_write_is_refused
  tests/toolchain/test_connector.py::test_a_connector_that_others_may_write_is_refused
are known by their SHA-256: a mirror with other content is refused
  tests/toolchain/test_connector.py::test_a_mirror_with_another_connector_is_refused
  tests/toolchain/test_login_handlers.py::test_msk_s_handler_is_one_jar_known_by_its_content
A changed jar is a `JarError`
  tests/toolchain/test_jars.py::test_a_jar_that_has_changed_is_refused
a changed one is not used, and the job compiles the classes itself
  tests/toolchain/test_writer_jar.py::test_a_damaged_jar_is_not_used
  quick: local
A mirror by plain http
  tests/toolchain/test_settings.py::test_plain_http_is_for_hosts_that_are_named
  quick: rule
of the worker does not decide who can write
  tests/jobs/test_hadoop_files.py::test_what_is_written_is_nobody_elses
  tests/submission/test_spark_submission.py::test_a_job_keeps_to_its_folder
are read only if they are regular files, up to 16 MiB
  tests/jobs/test_hadoop_files.py::test_a_file_that_has_no_end_is_not_read
  tests/state/test_checkpoint.py::test_a_file_that_has_no_end_is_not_read
  tests/hooks/test_spark_job.py::test_a_report_that_has_no_end_is_not_read
so a link in its place is replaced and not followed
  tests/jobs/test_hadoop_files.py::test_what_a_link_leads_to_is_not_written
have no `AIRFLOW_CONN_*`
  tests/e2e/test_airflow.py::test_no_secret_where_it_does_not_belong
  tests/submission/test_spark_submission.py::test_airflows_environment_stays_with_airflow

# Logs
The driver removes secrets from its report before it writes it
  tests/jobs/test_driver.py::test_a_report_has_no_secret
The secrets of a connection are masked in Airflow's logs, except those shorter than 5 characters
  tests/clients/connection/test_airflow_connection.py::test_short_values_are_not_taken_for_secrets
  tests/operators/test_bad_input.py::test_bad_input

# What a record cannot do
A line without it is no event, and only the first start counts
  tests/hooks/test_job_run.py::test_quoted_data_is_no_event
  tests/hooks/test_job_run.py::test_the_token_of_events_is_not_in_the_log
  quick: local
the application that is waited for or killed is the one that `spark-submit` named before the driver ran
  tests/hooks/test_job_run.py::test_on_yarn_a_kill_ends_no_foreign_application
  tests/hooks/test_job_run.py::test_on_kubernetes_a_kill_ends_no_foreign_pod
  quick: local
can forge what the log says of progress, and nothing else
  tests/jobs/test_progress.py::test_a_worker_follows_the_file
  tests/operators/test_job_bundle.py::test_a_report_is_judged_in_another_task
what it cannot read is left out with a warning
  tests/clients/test_record_reads.py::test_a_record_that_cannot_be_unpacked_is_left_out_with_a_warning
Where an expression fails on a record, Spark's own error quotes the value
  tests/jobs/test_expressions.py::test_a_copy_names_the_record
  tests/operators/test_local_driver.py::test_a_record_on_which_an_expression_fails_is_in_no_log
A source record may have a header that looks like the provenance header of another record
  tests/jobs/test_batch.py::test_a_record_cannot_pass_another_off_as_delivered

# What a writer to the report's location cannot do
or a changed one, is a `JobReportForgedError`, and a retry asks the target what was delivered
  tests/operators/test_job_bundle.py::test_a_report_is_judged_in_another_task
  tests/hooks/test_job_run.py::test_a_forged_report_is_an_error
the events, XCom or the report. A report without the MAC
  tests/hooks/test_job_run.py::test_the_key_of_the_report_is_nowhere_else
  quick: local

# What an API user cannot do
it counts as lost, with a warning: the task plans with the DAG's own parameters
  tests/state/test_task_state.py::test_what_others_have_stored_counts_as_lost
  tests/operators/test_on_rerun.py::test_what_an_api_user_has_stored_moves_no_record
makes no `since` read a checkpoint
  tests/sensors/test_offsets.py::test_only_the_dag_file_says_that_a_checkpoint_is_read
  quick: rule
it counts for nothing, and page and command say how many there are
  tests/operators/test_asset_events.py::test_what_no_task_has_announced_is_not_covered
  tests/test_coverage_command.py::test_gaps_failures_and_what_is_no_entry_are_listed
  quick: local
likewise, or a watcher has made it
  tests/core/conditions/test_watch.py::test_an_event_of_anybody_else_is_refused
  quick: rule

# What a connection and an option can do
none can be a command, an option of a JVM, or a reference to a file
  tests/core/test_connection_values.py::test_a_value_is_refused_or_stays_one_value
  tests/core/spark/test_options.py::test_no_option_names_a_class_that_a_client_loads
  quick: rule
Such a file is opened once, without waiting, and must be a regular file of at most 1 MiB
  tests/clients/connection/test_files.py::test_a_file_that_is_not_good_is_named
  tests/clients/connection/test_files.py::test_a_pipe_that_replaces_a_file_does_not_block
  quick: local
Of an answer in OAuth's form, errors and logs have the status and the error code only
  tests/clients/connection/test_token_endpoint.py::test_the_answer_is_not_quoted
  tests/clients/connection/test_token_endpoint.py::test_hosts_of_token_endpoints_can_be_restricted
  quick: local

# What an expression can do
The job refuses it, by name, if the parsed or the analysed form looks beyond the record
  tests/jobs/test_expressions.py::test_an_expression_looks_at_the_record_alone
  tests/jobs/test_expressions.py::test_a_registered_function_is_refused
  tests/jobs/test_expressions.py::test_an_expression_does_not_look_at_the_clock
Length and depth are bounded before Spark starts
  tests/core/records/test_expressions.py::test_an_expression_is_bounded_in_length_and_depth
  quick: rule

# What the coverage page can do
Airflow decides what is shown, and who may start a replay
  tests/coverage_page/test_page.py::test_a_user_who_may_only_read_is_offered_no_replay
  tests/coverage_page/test_page.py::test_a_visitor_without_a_session_sees_nothing
without one it answers 401
  tests/coverage_page/test_static_site.py::test_rights_are_said_to_a_user_only
  quick: local
Names from the API are shown as text
  tests/coverage_page/test_page.py::test_nothing_that_the_api_says_is_markup
The page's policy permits its own scripts, and requests to its own host only
  tests/coverage_page/test_page.py::test_it_reads_from_its_own_host_only

# What an author must not do
Logins in options are refused
  tests/core/spark/test_options.py::test_logins_belong_to_the_connection
  quick: rule
a `-D` option with the name of a secret in `spark.driver.extraJavaOptions` or `defaultJavaOptions` of `conf` is refused
  tests/hooks/test_spark_job.py::test_a_secret_among_the_drivers_java_options_is_refused
  quick: rule

# What is tested
One test runs real jobs in a real Airflow against a secured broker, and then searches for secrets
  tests/e2e/test_airflow.py::test_no_secret_where_it_does_not_belong
The same search runs around jobs on a real YARN
  tests/standalone/test_client_mode.py::test_both_logins_are_tokens
the search finds what is planted
  tests/e2e/test_secret_search.py::test_every_form_is_found
  quick: local
"""

PROMISES = (*_read(OF_GUARANTEES, GUARANTEES), *_read(OF_SECURITY, SECURITY))

#: Headings, and words of single paragraphs, bullets and rows, that promise nothing; with the reason.
NO_PROMISE: Mapping[str, Mapping[str, str]] = {
    GUARANTEES: {
        "Ranges and plans of other tasks, other sensors": "It says what is not compared.",
        "A window's end that needed not be kept": "It says what is not compared.",
        "What is cut after the driver's last look is found by an audit only": "It says what is not noticed.",
        "It writes everything again, with a warning, where nothing tells what was delivered": "It introduces a table.",
        "A backfill that reprocesses its runs clears them too": "It introduces a table.",
        "On this page a *try* is one of Airflow's tries of a task": "It explains two words.",
        "Consumers that read uncommitted records also see what was aborted": "That is what Kafka calls so.",
        "Kubernetes was tested with a real API server": "It says what was tested.",
        "Any Spark can read the checkpoint": "It says what others must not do.",
        "Faults tried": "It reports runs of `make faults`; the other sections promise what they show.",
    },
    SECURITY: {"Report a weakness": "It says where to write."},
}

#: Classes that authors of DAGs import from operators, sensors, triggers or hooks.
CLASSES = _read(
    """
AuditReplayOperator
  tests/operators/test_audit.py::test_a_good_copy
ConsumerGroupLagSensor
  tests/sensors/test_offsets.py::test_a_group_has_caught_up
DelegationTokenExpirySensor
  tests/sensors/test_delegation_token.py::test_it_wakes_when_a_token_comes_to_its_end
DelegationTokenHook
  tests/hooks/test_delegation_token.py::test_from_its_making_to_its_end
DriverPodTrigger
  tests/kubernetes/test_whole_way.py::test_a_trigger_follows_the_driver
ExpireDelegationTokensOperator
  tests/operators/test_delegation_token.py::test_a_further_try_ends_what_an_earlier_one_left
KafkaConditionTrigger
  tests/triggers/test_condition.py::test_two_hundred_wake_within_two_rounds_over_one_client
KafkaHook
  tests/hooks/test_kafka.py::test_returns_the_state_of_each_topic
KafkaNewRecordsSensor
  tests/sensors/test_offsets.py::test_what_is_new_is_ready_to_be_replayed
KafkaNewRecordsTrigger
  tests/triggers/test_new_records.py::test_each_record_is_announced_once_over_restarts
KafkaTimestampReachedSensor
  tests/sensors/test_offsets.py::test_a_window_is_complete_when_every_partition_is_behind_it
KafkaToKafkaAvailableNowOperator
  tests/operators/test_available_now.py::test_three_runs_with_production_in_between
KafkaToKafkaBatchOperator
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
  tests/e2e/test_airflow.py::test_every_record_of_the_backfilled_hours_lands_in_exactly_one_window
RenewDelegationTokensOperator
  tests/operators/test_delegation_token.py::test_by_what_a_sensor_returned
ReplayOffsetRangesOperator
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
SparkApplicationTrigger
  tests/yarn/test_whole_way.py::test_a_copy_whose_worker_dies_and_one_that_is_deferred
SparkJobHook
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
TranslateGroupOffsetsOperator
  tests/operators/test_consumer_group.py::test_a_group_goes_on_at_the_copy_where_it_stopped_at_the_source
"""
)

#: What the name of a master begins with: a copy that goes the whole way.
MASTERS = _read(
    """
k8s
  tests/kubernetes/test_whole_way.py::test_a_login_by_a_secret_and_a_worker_that_dies
local
  tests/operators/test_kafka_to_kafka.py::test_a_green_task
local-cluster[
  tests/faults/test_killed.py::test_a_process_is_killed
spark://
  tests/standalone/test_client_mode.py::test_both_logins_are_tokens
yarn
  tests/yarn/test_whole_way.py::test_a_copy_whose_worker_dies_and_one_that_is_deferred
"""
)

#: Versions: likewise. The tests' own Spark is that of all other tests.
SPARKS = _read(
    """
3.5.7
  tests/other_sparks/test_copies.py::test_a_replay
4.2.0
  tests/other_sparks/test_copies.py::test_a_replay
"""
)

#: Errors that only stand for others, and are raised nowhere.
FAMILIES = ("KafkaSparkError", "SubmitError", "JobError")

#: Errors of checks before Spark starts: one test has a row for each.
_OF_BAD_INPUT = """
AuditInputError BoundError BrokerAuthenticationError BrokerTlsError BrokerUnavailableError ConnectionConfigError
ConnectionNotFoundError DataLossError InvalidInputError JarError JavaNotFoundError OffsetRangeError OptionError
PlanError ReportLocationError SparkSubmitNotFoundError TargetError TopicRecreatedError UnknownTopicError
"""
#: Tests in which a real part raises the error.
ERRORS = (
    *_read("".join(f"{name}\n  tests/operators/test_bad_input.py::test_bad_input\n" for name in _OF_BAD_INPUT.split())),
    *_read(
        """
AirflowApiError
  tests/state/test_variables.py::test_one_that_was_not_answered_is_not_absent
  tests/coverage_page/test_command.py::test_a_user_and_a_password_log_in_and_one_without_rights_is_refused
  tests/test_coverage_command.py::test_an_answer_that_is_none_ends_the_command_with_a_name
AlreadyDeliveredError
  tests/operators/test_on_rerun.py::test_a_clear_may_be_refused_or_copy_again
  tests/state/test_run_state.py::test_a_run_after_a_success_may_be_refused
AuditFindingError
  tests/operators/test_audit.py::test_a_finding_fails_the_task_after_its_result_was_pushed
BrokerAuthorizationError
  tests/operators/test_permissions.py::test_exactly_these_acls_are_enough
BrokerError
  tests/clients/test_transaction_check.py::test_brokers_without_transactions
CheckpointError
  tests/operators/test_stream_parameters.py::test_a_batch_is_finished_as_it_was_begun
CheckpointInUseError
  tests/operators/test_available_now.py::test_two_runs_at_once_are_refused_and_the_lock_of_a_dead_one_is_taken_over
CheckpointMissingError
  tests/sensors/test_offsets.py::test_bad_input_is_one_clear_error_at_once
CheckpointUnavailableError
  tests/triggers/test_shared_poll.py::test_a_storage_that_hangs_keeps_no_other_trigger
  quick: local
ClassArchiveError
  tests/toolchain/test_class_archive.py::test_what_no_jvm_starts_with_is_not_kept
ClusterUnavailableError
  tests/submission/test_kubernetes_api.py::test_only_a_refusal_fails_the_task_for_good
  quick: local
ConcurrentRunsError
  tests/sensors/test_offsets.py::test_two_runs_at_a_time_do_not_find_the_same
ConsumerGroupActiveError
  tests/operators/test_consumer_group.py::test_an_active_group_gets_nothing
ConsumerGroupError
  tests/clients/test_consumer_group.py::test_a_group_with_members_is_refused_by_name
DelegationTokenError
  tests/hooks/test_delegation_token.py::test_each_failure_is_named_in_time
DelegationTokenExpiredError
  tests/hooks/test_delegation_token.py::test_a_token_that_has_ended
DelegationTokenNotUsableError
  tests/hooks/test_delegation_token.py::test_a_token_that_brokers_do_not_take
DeliveryError
  tests/jobs/test_exactly_once.py::test_records_that_a_task_passed_over_are_written_by_the_next_try
DuplicateRecordsError
  tests/jobs/test_exactly_once.py::test_a_duplicate_is_found_by_every_further_try
EarlierJobUnknownError
  tests/hooks/test_earlier_job.py::test_it_does_not_go_on_without_an_answer
  quick: local
ExpressionError
  tests/jobs/test_batch.py::test_refuses_a_bad_expression_before_writing
GroupOffsetsError
  tests/operators/test_consumer_group.py::test_bad_input
JavaStartError
  tests/clients/test_kafka_jvm.py::test_a_jvm_that_does_not_start_may_do_so_later
JobFailedError
  tests/jobs/test_driver.py::test_a_job_whose_jvm_dies_leaves_its_report
JobFolderError
  tests/operators/test_job_bundle.py::test_a_folder_that_cannot_be_written
JobKilledError
  tests/operators/test_kafka_to_kafka.py::test_a_killed_task_fails_and_its_next_try_completes_it
JobReportForgedError
  tests/operators/test_job_bundle.py::test_a_report_is_judged_in_another_task
JobReportMissingError
  tests/operators/test_kafka_to_kafka.py::test_a_driver_that_dies_without_a_report
JobMemoryError
  tests/operators/test_bounded_copy.py::test_a_record_for_which_memory_is_too_small_is_named_and_not_tried_a_third_time
JobTokenEndedError
  tests/operators/test_job_token.py::test_a_token_that_somebody_ends_is_named
LocalServiceError
  tests/testing/test_kafka_broker.py::test_a_broker_that_cannot_start_gives_the_reason
OpenTransactionError
  tests/promises/test_limits.py::test_a_replay_into_an_open_transaction
PausedTooLongError
  tests/operators/test_pause.py::test_a_pause_that_lasts_too_long_ends_and_a_retry_goes_on
PlanOutdatedError
  tests/operators/test_plan.py::test_a_plan_that_no_longer_holds_copies_nothing
PlanTooLargeError
  tests/operators/test_create_target_topics.py::test_what_fails_makes_no_topic
ProgressUnknownError
  tests/jobs/writer/test_writer.py::test_unknown_progress_is_an_error
ProtocolError
  tests/operators/test_job_bundle.py::test_a_bundle_survives_json
RepeatedMemoryError
  tests/operators/test_bounded_copy.py::test_a_record_for_which_memory_is_too_small_is_named_and_not_tried_a_third_time
RequirementError
  tests/toolchain/test_requirements.py::test_what_is_too_old_is_named_with_what_to_install
  quick: local
RunTakenOverError
  tests/jobs/test_exactly_once.py::test_a_driver_whose_run_was_taken_over_is_fenced
SourceDamagedError
  tests/jobs/writer/test_batches.py::test_a_damaged_batch_is_an_error_that_names_it
SourceStalledError
  tests/jobs/writer/test_writer.py::test_a_source_that_stalls_for_too_long_ends_the_task
SparkVersionError
  tests/toolchain/test_spark_home.py::test_a_mixture_of_two_versions_is_named
  quick: local
StartNotRecordedError
  tests/hooks/test_job_run.py::test_a_start_that_airflow_does_not_record
  quick: local
TargetRecreatedError
  tests/jobs/test_exactly_once.py::test_while_tasks_write
TransactionEndedError
  tests/jobs/writer/test_sinks.py::test_a_sink
  tests/core/wire/test_task_failures.py::test_a_code_says_which_error_it_is
UncopiedRecordsError
  tests/operators/test_available_now.py::test_what_was_not_proved_is_looked_at_again
"""
    ),
)
