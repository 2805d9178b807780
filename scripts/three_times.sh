#!/bin/sh
# Runs a command up to three times, until it succeeds.
for attempt in 1 2 3; do
  "$@" && exit 0
  echo "Attempt $attempt of 3 failed: $*" >&2
done
exit 1
