# What runs on a node, for up.sh and node2.sh, with the node's settings of env.sh. "enter" is the command that enters its
# network.
enter=()
mkdir -p "$state"/{log,pid,cni,containerd} "$run"

start() { # name command...: closes the caller's other descriptors, such as a lock's
	local name=$1
	shift
	if running "$name" >/dev/null; then return; fi
	(
		for fd in "/proc/$BASHPID/fd/"*; do
			fd=${fd##*/}
			[ "$fd" -le 2 ] || eval "exec $fd>&-"
		done
		exec setsid nohup "$@" >"$state/log/$name.log" 2>&1 </dev/null
	) &
	echo $! >"$state/pid/$name"
	disown
}

await() { # name seconds command...
	local name=$1 deadline=$((SECONDS + $2))
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $deadline ]; then
			echo "$name did not come up:" >&2
			tail -n 20 "$state/log/$name.log" >&2
			exit 1
		fi
		sleep 0.1
	done
	printf '%4d s  %s\n' "$SECONDS" "$name"
}

# restrict_oom_score_adj: without it, a container's process could not start if CAP_SYS_RESOURCE is missing.
start_containerd() { # the gateway of its pods, whether they are masqueraded, the directory of the registries' mirrors
	cat >"$state/cni/10-bridge.conflist" <<K
{"cniVersion": "0.4.0", "name": "fiber-cluster", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": $2, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$run/cni-ipam", "ranges": [[{"subnet": "$pod_cidr", "gateway": "$1"}]],
           "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "firewall", "backend": "iptables"},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
K
	cat >"$state/containerd.toml" <<K
version = 2
root = "$state/containerd"
state = "$run/containerd"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${3:-}"
K
	start containerd "${enter[@]}" containerd -c "$state/containerd.toml"
}

# The kubelet accepts cgroup v1, and does not evict pods from a small disk.
start_kubelet() { # the name of its certificates, the addresses of all pods that its proxy serves
	"$here/image.sh" "$CLUSTER_BIN/pause" localhost/pause:1 | ctr images import - >/dev/null
	"$here/image.sh" "$(command -v busybox)" docker.io/library/busybox:1.37 sh tar sleep mkdir cat chown stat dirname basename mv rm |
		ctr images import - >/dev/null # for fiber cp, without a way to the outside
	cat >"$state/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$run/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: ${cgroup:-/}
failCgroupV1: false
failSwapOn: false
tlsCertFile: $pki/$1-server.crt
tlsPrivateKeyFile: $pki/$1-server.key
podLogsDir: $state/logs # another node's kubelet removes what it does not know
clusterDomain: cluster.local
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
maxPods: 200
K
	start kubelet "${enter[@]}" kubelet --config="$state/kubelet.yaml" --kubeconfig="$CLUSTER_STATE/$1.kubeconfig" \
		--hostname-override="$node" --node-ip="$node_ip" --root-dir="$state/kubelet"
	cat >"$state/proxy.yaml" <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $2
hostnameOverride: $node
clientConnection: {kubeconfig: $CLUSTER_STATE/proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
K
	start kube-proxy "${enter[@]}" kube-proxy --config="$state/proxy.yaml"
	await kubelet 180 ready
}

ready() { [ "$(kubectl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
