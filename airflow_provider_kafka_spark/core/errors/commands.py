"""Commands that tell the causes of an error apart. No I/O.

Words in capitals are to be replaced; ``B`` is a bootstrap server.
"""

from __future__ import annotations

RENDER = "airflow tasks render DAG_ID TASK_ID LOGICAL_DATE_OR_RUN_ID"
CONNECTION = "AIRFLOW__CORE__TEST_CONNECTION=Enabled airflow connections test CONN_ID"
TOPIC = "kafka-topics.sh --bootstrap-server B --describe --topic TOPIC"
STARTS = "kafka-get-offsets.sh --bootstrap-server B --topic TOPIC --time earliest"
ENDS = "kafka-get-offsets.sh --bootstrap-server B --topic TOPIC --time latest"
TOPIC_CONFIG = "kafka-configs.sh --bootstrap-server B --describe --entity-type topics --entity-name TOPIC"
GROUP = "kafka-consumer-groups.sh --bootstrap-server B --describe --group GROUP"
MEMBERS = f"{GROUP} --members"
REACHED = "kafka-broker-api-versions.sh --bootstrap-server B --command-config CLIENT.properties"
TLS = "openssl s_client -connect HOST:PORT -servername HOST -showcerts </dev/null"
ACLS = "kafka-acls.sh --bootstrap-server B --list --principal User:NAME"
TOKENS = "kafka-delegation-tokens.sh --bootstrap-server B --describe --command-config CLIENT.properties"
TRANSACTIONS = "kafka-transactions.sh --bootstrap-server B list"
HANGING = "kafka-transactions.sh --bootstrap-server B find-hanging --topic TOPIC"
PREPARE = "airflow kafka-spark prepare"
CACHE = "airflow config get-value kafka_spark cache_folder"
YARN_LOG = "yarn logs -applicationId APPLICATION_ID"
POD_LOG = "kubectl logs DRIVER_POD --namespace NAMESPACE"
POD = "kubectl describe pod DRIVER_POD --namespace NAMESPACE"
