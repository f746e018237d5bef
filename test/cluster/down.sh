#!/usr/bin/env bash
# Stops what up.sh has started, and removes everything but the binaries; "down.sh keep" keeps the cluster's state.
. "$(dirname "$0")/env.sh"

stop() { # name: asked to end, and killed if it does not
	local pid
	pid=$(running "$1") || return
	kill -CONT "$pid" 2>/dev/null
	kill "$pid" 2>/dev/null
	for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
	kill -KILL "$pid" 2>/dev/null
	rm -f "$state/pid/$1"
}

[ ! -d "$state/node2" ] || "$here/node2.sh" down
[ "${1:-}" = keep ] || timeout 60 kubectl delete pods --all -A --grace-period=0 --force >/dev/null 2>&1
stop kubelet
stop kube-proxy
if [ "${1:-}" != keep ]; then
	for task in $(ctr tasks ls -q 2>/dev/null); do
		ctr tasks rm -f "$task" >/dev/null 2>&1
		ctr containers rm "$task" >/dev/null 2>&1
	done
fi
for name in kube-scheduler kube-controller-manager kube-apiserver etcd registry containerd; do stop "$name"; done
[ "${1:-}" = keep ] && exit
awk -v a="$state/" -v b="$run/" 'index($2, a) == 1 || index($2, b) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
for link in $(ip -o link show master cni0 2>/dev/null | awk -F': ' '{ sub(/@.*/, "", $2); print $2 }'); do ip link del "$link"; done
ip link del cni0 2>/dev/null
kube-proxy --cleanup >/dev/null 2>&1
rm -rf "$state" "$run"
