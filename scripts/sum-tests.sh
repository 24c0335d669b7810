#!/usr/bin/env bash
# Reads the output of cargo test, prints the sum of all its "test result" lines, and ends with the exit status given as argument.
# A run that failed without naming a failed test (it did not compile, or a test binary crashed) counts as one failure; a run without tests fails.
set -euo pipefail

awk -v status="$1" '
    /^test result: / {
        for (field = 2; field <= NF; field++) {
            if ($field ~ /^passed;/) passed += $(field - 1)
            if ($field ~ /^failed;/) failed += $(field - 1)
            if ($field ~ /^ignored;/) skipped += $(field - 1)
        }
    }
    END {
        if (status == 0 && failed > 0) status = 101
        if (status == 0 && passed == 0) { print "no test ran" > "/dev/stderr"; status = 101 }
        if (status != 0 && failed == 0) failed = 1
        printf "%d passed, %d failed", passed, failed
        if (skipped > 0) printf ", %d skipped", skipped
        printf "\n"
        exit status
    }'
