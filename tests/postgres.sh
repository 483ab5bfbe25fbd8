#!/usr/bin/env bash
# tests/postgres.sh DIR start|stop|kill|erase: a PostgreSQL of the tests' own in DIR, which listens on a socket
# there and nowhere else: postgresql://swiftlet@/postgres?host=DIR. `kill` is kill -9 of all its processes. It does
# not run as root: where a test does, it runs as nobody. Exits 77 where PostgreSQL is not installed.
set -euo pipefail

folder=$1
programs=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | tail -1)
[ -n "$programs" ] || { echo "PostgreSQL is not installed (Debian: postgresql)" >&2; exit 77; }

as_nobody=()
if [ "$(id -u)" -eq 0 ]; then
	as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups --)
fi

pid() { head -1 "$folder/data/postmaster.pid" 2> /dev/null || true; }

start() {
	if [ ! -e "$folder/data/PG_VERSION" ]; then
		mkdir -p "$folder"
		[ "$(id -u)" -ne 0 ] || chown nobody:nogroup "$folder"
		(cd "$folder" && "${as_nobody[@]}" "$programs/initdb" -D "$folder/data" -A trust -U postgres -E UTF8 \
			--locale=C --no-sync > "$folder/initdb.log") || { cat "$folder/initdb.log" >&2; exit 1; }
	fi
	if "$programs/pg_isready" -q -h "$folder"; then return; fi
	# what a process had written survives its kill without fsync; a power failure is not tested
	(cd "$folder" && "${as_nobody[@]}" "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w -t 300 start -o \
		"-k $folder -c listen_addresses='' -c fsync=off -c shared_buffers=16MB -c max_connections=40" > /dev/null) ||
		{ tail -20 "$folder/log" >&2; exit 1; }
	# the service's role stands above nothing
	"$programs/psql" -q -X -h "$folder" -U postgres -d postgres > /dev/null 2>&1 << 'SQL' || true
CREATE ROLE swiftlet LOGIN CREATEDB; ALTER DATABASE postgres OWNER TO swiftlet;
SQL
}

case "$2" in
start) start ;;
stop) (cd "$folder" && "${as_nobody[@]}" "$programs/pg_ctl" -D "$folder/data" -m fast -w stop > /dev/null) ;;
kill)
	postmaster=$(pid)
	if [ -n "$postmaster" ]; then
		kill -9 "$postmaster" $(pgrep -P "$postmaster") 2> /dev/null || true
		while kill -0 "$postmaster" 2> /dev/null; do sleep 0.02; done
		rm -f "$folder/data/postmaster.pid" # the number may soon be another process's
	fi
	;;
erase)
	"$0" "$folder" kill
	rm -rf "$folder"
	;;
esac
