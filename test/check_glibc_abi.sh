#!/usr/bin/env bash
# Fails if the library needs anything of a libc: a symbol version above the baseline, a library, any symbol at all.
set -euo pipefail
library=${1:?usage: check_glibc_abi.sh LIBRARY}
[ -s "$library" ] || { echo "$library: not there or empty" >&2; exit 1; }
needed=$(readelf -dW "$library" | grep NEEDED || true)
undefined=$(readelf -W --dyn-syms "$library" | awk '$7 == "UND" && $8 != ""' || true)
versions=$(readelf -VW "$library" | grep -o 'GLIBC_[0-9.]*' | sort -Vu || true)
for what in needed undefined versions; do
	[ -z "${!what}" ] || { echo "$library: $what: ${!what}" >&2; exit 1; }
done
for symbol in la_version la_objopen la_symbind64; do
	readelf -W --dyn-syms "$library" | grep -q " $symbol\$" || { echo "$library: no $symbol" >&2; exit 1; }
done
others=$(readelf -W --dyn-syms "$library" | awk '$5 == "GLOBAL" && $7 != "UND" { print $8 }' | grep -v '^la_' || true)
[ -z "$others" ] || { echo "$library: exports more than la_*: $others" >&2; exit 1; }
echo "$library: needs no library, no symbol and no glibc version (baseline 2.34 kept)"
