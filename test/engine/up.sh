#!/usr/bin/env bash
# Makes sure that a docker engine answers: if none does, starts dockerd; if that is not installed, first installs docker.io,
# on Debian and Ubuntu. Both need root or sudo.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/sbin:/sbin:$PATH

answers() {
	local said
	said=$(docker version --format 'docker engine {{.Server.Version}}, API {{.Server.APIVersion}}' 2>/dev/null) && echo "$said"
}
answers && exit 0

sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
if ! command -v dockerd >/dev/null; then
	# The package starts services unless policy-rc.d forbids it, which fails without a service manager.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee /usr/sbin/policy-rc.d >/dev/null
		"${sudo[@]}" chmod 755 /usr/sbin/policy-rc.d
		trap '"${sudo[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	"${sudo[@]}" apt-get update -qq
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends docker.io containerd runc iptables >/dev/null
	answers && exit 0
fi
log=/var/log/fiber-dockerd.log
"${sudo[@]}" sh -c "nohup setsid dockerd >$log 2>&1 </dev/null &"
for _ in $(seq 150); do
	answers && exit 0
	sleep 0.2
done
echo "dockerd does not answer; the end of $log:" >&2
"${sudo[@]}" tail -5 "$log" >&2
exit 1
