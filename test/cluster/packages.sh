#!/usr/bin/env bash
# Installs the Debian packages that the cluster needs. Their daemons are not started: the cluster runs its own.
set -euo pipefail
packages=(containerd runc containernetworking-plugins iptables docker-registry conntrack ethtool socat openssl curl
	iproute2 procps mount ca-certificates busybox-static)
dpkg -s "${packages[@]}" >/dev/null 2>&1 && exit
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
