#!/bin/sh
# Find Java 17 or newer; install it where that may be done (root on Debian or Ubuntu); otherwise say the one command to run.
set -eu

java_major() {
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    command -v "$java" >/dev/null 2>&1 || { echo 0; return; }
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

major=$(java_major)
[ "${major:-0}" -ge 17 ] && exit 0
found="Java 17 or newer is needed; found ${major:-none}."
if [ -n "${JAVA_HOME:-}" ]; then
    echo "$found JAVA_HOME is $JAVA_HOME: point it at a newer Java, or unset it." >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "$found Installing it with apt-get..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq openjdk-17-jre-headless >/dev/null || apt-get install -y -qq default-jre-headless >/dev/null
    major=$(java_major)
    [ "${major:-0}" -ge 17 ] && exit 0
fi
echo "$found Install it with:  sudo apt-get install openjdk-17-jre-headless  (or your system's package), then run make again." >&2
exit 1
