#!/usr/bin/env bash
# Makes a virtual environment in a directory, with Fiber's peers in the versions of peers.txt. What can't be installed is named;
# if this machine has another version of it, that is used.
set -euo pipefail
dir=$1
python=/usr/bin/python3
[ -x "$python" ] || python=python3
[ -x "$dir/bin/python" ] || "$python" -m venv --system-site-packages "$dir" || {
	rm -rf "$dir"
	echo "no virtual environment can be made (on Debian: apt install python3-venv): the peers of this machine are used"
	exit 0
}
while read -r peer; do
	"$dir/bin/python" -m pip install --quiet --no-input --disable-pip-version-check "$peer" 2>"$dir/said" ||
		echo "$peer can't be installed: $(tail -1 "$dir/said")"
done <"$(dirname "$0")/peers.txt"
