"""Options of a JVM that lives for minutes at most: the optimizing compiler and a parallel collector would cost more
than they save.
"""

from __future__ import annotations

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Every ``java`` since version 9 reads options from this variable; those of its command line have priority.
OPTIONS_VARIABLE = "JDK_JAVA_OPTIONS"
