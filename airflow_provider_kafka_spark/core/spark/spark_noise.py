"""Lines of ``spark-submit`` that tell a reader of the task's log nothing. No I/O.

The list has lines of one kind each, as they are written by Spark 3.5 to 4.1 and by Java. A line of an error is never
left out: what has another level than WARN or INFO matches none.
"""

from __future__ import annotations

import re

#: Of Spark's default log format; a user's own log4j settings may have another, and then all is logged.
_PREFIX = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:WARN|INFO) "

_NOISE = re.compile(
    "|".join(
        (
            # Spark's own scripts add the module.
            r"WARNING: Using incubator modules: jdk\.incubator\.vector",
            r"Using Spark's default log4j profile: \S+",
            r'Setting (?:default|Spark) log level to "WARN"\.',
            r"To adjust logging level use sc\.setLogLevel\(newLevel\)\..*",
            # Spark's version is in the result; it is logged before the level is set.
            _PREFIX + r"SparkContext: (?:Running Spark version|OS info|Java version) .*",
            # Nothing of a copy uses it.
            _PREFIX + r"NativeCodeLoader: Unable to load native-hadoop library for your platform.*",
            # Several drivers on one worker; Spark takes the next port.
            _PREFIX + r"Utils: Service '[\w.]+' could not bind on port \d+\. Attempting port \d+\.",
            # The folder is set for a local master, which has no other.
            _PREFIX + r"SparkConf: Note that spark\.local\.dir will be overridden by the value set by the cluster.*",
            # A fault of Kafka's client that was repaired in Kafka 0.10.2; Spark reads in such a thread by design.
            _PREFIX + r"KafkaDataConsumer: KafkaDataConsumer is not running in UninterruptibleThread\..*KAFKA-1894",
            # The worker's own addresses, which a driver on the worker does not need.
            _PREFIX + r"Utils: Your hostname, .* resolves to a loopback address.*",
            _PREFIX + r"Utils: Set SPARK_LOCAL_IP if you need to bind to another address",
        )
    )
)


def is_noise(line: str) -> bool:
    """Whether a line is left out of the task's log.

    >>> is_noise("26/11/24 01:55:21 WARN Utils: Service 'SparkUI' could not bind on port 4040. Attempting port 4041.")
    True
    >>> is_noise("26/11/24 01:55:21 ERROR Utils: Service 'SparkUI' could not bind on port 4040. Attempting port 4041.")
    False

    :param line: without its end.
    """
    return _NOISE.fullmatch(line) is not None
