#!/usr/bin/env bash
# node2.sh VERB controls a second node of the cluster that up.sh has brought up, with a network, containerd, kubelet and
# kube-proxy of its own.
#   up         brings the node up, also after kill; what is up already stays
#   down       removes it
#   cut, join  take the link between the nodes down and up
#   drain, uncordon   remove its pods, as before a repair, and let others come
#   kill       ends all its processes at once, as a power failure does
#   with COMMAND...   runs a command while the node is up, with this script's path in FIBER_TEST_NODE
set -euo pipefail
. "$(dirname "$0")/env.sh"
registry_ip=$node_ip
node=node2 node_ip=10.246.0.2 pod_cidr=10.244.1.0/24 gateway=10.244.1.1 outside=10.246.0.1 link=vnode2
state=$CLUSTER_STATE/$node run=$run/$node cgroup=/fiber-$node

join() {
	ip link set $link up
	ip route replace $pod_cidr via $node_ip
}

network() {
	[ -e /run/netns/$node ] || ip netns add $node
	if ! ip link show $link >/dev/null 2>&1; then
		ip link add $link type veth peer name eth0 netns $node
		ip addr add $outside/24 dev $link
		ip -n $node addr add $node_ip/24 dev eth0
		ip -n $node link set eth0 up
		ip -n $node link set lo up
		ip -n $node route add default via $outside
		# up.sh explains the link-layer address
		ip -n $node link add cni0 address 0a:58:0a:f4:01:01 type bridge
		ip -n $node addr add $gateway/24 dev cni0
		ip -n $node link set cni0 up
		nsenter --net=/run/netns/$node sysctl -qw net.ipv4.ip_forward=1
		iptables -I FORWARD -i $link -j ACCEPT
		iptables -I FORWARD -o $link -j ACCEPT
	fi
	join
}

cgroups() {
	local root=/sys/fs/cgroup dir
	if [ -e $root/cgroup.controllers ]; then
		mkdir -p $root$cgroup
		return
	fi
	for dir in $root/*/; do
		mkdir -p "$dir$cgroup" 2>/dev/null || true
	done
	cat $root/cpuset/cpuset.cpus >$root/cpuset$cgroup/cpuset.cpus
	cat $root/cpuset/cpuset.mems >$root/cpuset$cgroup/cpuset.mems
}

# The registry is the first node's, at an address that this node reaches, whatever its name in an image.
mirror() {
	mkdir -p "$state/mirrors/$registry"
	printf 'server = "http://%s"\n[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' \
		$registry_ip:5000 $registry_ip:5000 >"$state/mirrors/$registry/hosts.toml"
	sed "s#addr: .*#addr: \"$registry_ip:5000\"}#" "$CLUSTER_STATE/registry.yml" >"$state/registry.yml"
	start registry docker-registry serve "$state/registry.yml"
}

up() {
	. "$here/node.sh"
	enter=(nsenter --net=/run/netns/$node)
	network
	cgroups
	mirror
	[ -s "$CLUSTER_STATE/$node-kubelet.kubeconfig" ] || "$here/certs.sh" $node-kubelet $node $node_ip
	start_containerd $gateway false "$state/mirrors"
	await containerd 180 ctr version
	start_kubelet $node-kubelet 10.244.0.0/16
}

# Pods have networks of their own, so their processes are found by their control group.
killed() {
	local pids
	pids=$(
		ip netns pids $node 2>/dev/null
		grep -ls "$cgroup/" /proc/[0-9]*/cgroup | cut -d/ -f3
	) || true
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}

down() {
	local pid
	timeout 20 kubectl delete node $node --ignore-not-found >/dev/null 2>&1 || true
	killed
	if pid=$(running registry); then kill "$pid"; fi
	ip route del $pod_cidr 2>/dev/null || true
	if ip link show $link >/dev/null 2>&1; then
		iptables -D FORWARD -i $link -j ACCEPT
		iptables -D FORWARD -o $link -j ACCEPT
		ip link del $link
	fi
	ip netns del $node 2>/dev/null || true
	awk -v a="$state/" -v b="$run/" 'index($2, a) == 1 || index($2, b) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
	find /sys/fs/cgroup -depth -type d -path "*$cgroup*" -exec rmdir {} + 2>/dev/null || true
	rm -rf "$state" "$run"
}

case ${1:-} in
up | down | join) "$1" ;;
cut) ip link set $link down ;;
drain) kubectl drain $node --force --delete-emptydir-data --ignore-daemonsets --timeout 60s ;;
uncordon) kubectl uncordon $node ;;
kill) killed ;;
with)
	shift
	up
	trap down EXIT
	FIBER_TEST_NODE="$here/node2.sh" "$@"
	;;
*)
	sed -n '2,/^set/s/^# \?//p' "$0" >&2
	exit 2
	;;
esac
