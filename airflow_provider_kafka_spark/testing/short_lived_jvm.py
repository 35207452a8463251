"""Options of a JVM that lives for minutes at most: the optimizing compiler and a parallel collector cost it more than
they save.
"""

from __future__ import annotations

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Every ``java`` reads more options from this variable, since Java 9; those of its command line win.
OPTIONS_VARIABLE = "JDK_JAVA_OPTIONS"
