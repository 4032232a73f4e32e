#!/bin/sh
# The kcat (librdkafka) row of the client matrix: run.sh HOST:PORT prints a line
# for each step and ends with 1 if any failed.
set -u
[ $# -eq 1 ] || { echo "usage: $0 HOST:PORT" >&2; exit 2; }
broker=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
topic=kcat-$$-$(date +%s)
code=0

version=$(kcat -V | sed -n 's/^Version \([^ ]*\).*librdkafka \([^ ,)]*\).*/\1 with librdkafka \2/p')
echo "version ${version:-unknown}"

# step NAME COMMAND…: COMMAND succeeds within a minute, and says why if not.
step() {
	name=$1
	shift
	if "$@" 2>"$tmp/err"; then
		echo "PASS $name"
	else
		code=1
		echo "FAIL $name: $(tail -n 3 "$tmp/err" | tr '\n' ';')"
	fi
}

# ask bounds kcat: one that waits for something that never comes is a failure.
ask() { timeout 60 kcat -q -b "$broker" "$@"; }

seq 1 2000 | sed 's/.*/key-&|line & of two thousand, long enough to be worth compressing/' >"$tmp/lines"

# round_trip CODEC [OPTION…]: keys, values and headers come back in order.
round_trip() {
	c=$1
	shift
	ask -P -t "$topic-$c" -p 0 -K '|' -z "$c" -H h1=one -H h2= "$@" -l "$tmp/lines" &&
		ask -C -t "$topic-$c" -p 0 -o beginning -e -f '%k|%h|%s\n' >"$tmp/back" &&
		sed 's/|/|h1=one,h2=|/' "$tmp/lines" | cmp - "$tmp/back" >&2
}

idempotent() { round_trip none -X enable.idempotence=true; }

# An empty key or value is sent as null under -Z, and comes back as such.
nulls() {
	printf 'k|\n|v\n' | ask -P -t "$topic-nulls" -p 0 -K '|' -Z &&
		ask -C -t "$topic-nulls" -p 0 -o beginning -e -Z -f '%K %k %S %s\n' >"$tmp/back" &&
		printf '1 k -1 NULL\n-1 NULL 1 v\n' | cmp - "$tmp/back" >&2
}

# Two runs of one group: the second goes on where the first stopped.
resume() {
	ask -P -t "$topic-group" -p 0 -l "$tmp/lines" || return
	for half in 1 2; do
		ask -G "$topic-readers" -c 1000 -X auto.offset.reset=earliest "$topic-group" >"$tmp/half$half" || return
	done
	cat "$tmp/half1" "$tmp/half2" | cmp - "$tmp/lines" >&2
}

listing() { ask -L -t "$topic-gzip" -J | grep -q "\"topic\":\"$topic-gzip\"" || { echo "not listed" >&2; return 1; }; }

# The first offset at or after a time: that of the first record for one long
# past, and the end of the log for one to come.
by_time() {
	past=$(ask -Q -t "$topic-gzip:0:1000") && future=$(ask -Q -t "$topic-gzip:0:99999999999999") || return
	[ "$past $future" = "$topic-gzip [0] offset 0 $topic-gzip [0] offset -1" ] || { echo "$past, $future" >&2; return 1; }
}

for c in gzip snappy lz4 zstd; do
	step "codec-$c" round_trip "$c"
done
step idempotent idempotent
step nulls nulls
step group-commit-resume resume
step list listing
step offset-by-time by_time
exit $code
