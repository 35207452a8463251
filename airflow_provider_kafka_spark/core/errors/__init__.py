"""Every failure that this package names, a class each, in the module of its family. Import them from here.

A class is all that is known about its failure. The first paragraph of its docstring says what it means, the second what
to do; ``KafkaSparkError`` says what the attributes are. The reference of errors, ``explain`` and what crosses a process
border are made from the classes.
"""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors.base import *
from airflow_provider_kafka_spark.core.errors.brokers import *
from airflow_provider_kafka_spark.core.errors.inputs import *
from airflow_provider_kafka_spark.core.errors.jobs import *
from airflow_provider_kafka_spark.core.errors.plans import *
from airflow_provider_kafka_spark.core.errors.positions import *
from airflow_provider_kafka_spark.core.errors.services import *
from airflow_provider_kafka_spark.core.errors.submission import *
